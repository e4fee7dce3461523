package consort;

import java.io.IOException;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.UserPrincipal;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import jdk.net.ExtendedSocketOptions;

/** Who is at the other end of a Unix socket. */
final class Peer {
    private Peer() {}

    /**
     * Refuses to show a token to a daemon that runs as another user: it could show the token, too. The user who alone decides
     * what is in the socket's directory is trusted as much as the address is.
     */
    static void check(SocketChannel channel, String address) throws ConsortException, IOException {
        if (!(channel.getRemoteAddress() instanceof UnixDomainSocketAddress at)) {
            return;
        }
        UserPrincipal user = channel.getOption(ExtendedSocketOptions.SO_PEERCRED).user();
        Set<UserPrincipal> known = known(self());
        Path directory = at.getPath().toAbsolutePath().getParent();
        if (!known.contains(user) && !user.equals(ownerOf(directory, known))) {
            throw ConsortException.untrusted(address, user.getName());
        }
    }

    /** The user as whom this process runs now, which {@code user.name} does not always say. */
    private static UserPrincipal self() throws IOException {
        return Files.getOwner(Path.of("/proc/self"));
    }

    /** Root and this user. Users are compared by their numbers. */
    static Set<UserPrincipal> known(UserPrincipal own) throws IOException {
        return Set.copyOf(List.of(user(0), own));
    }

    static UserPrincipal user(int number) throws IOException {
        return Path.of("/").getFileSystem().getUserPrincipalLookupService().lookupPrincipalByName(String.valueOf(number));
    }

    /**
     * The owner of a directory, if that user, beside the known ones, alone decides what is in it: no other user may put
     * something there, or exchange anything on the way to it. {@code null} otherwise.
     *
     * @param directory an absolute path, not normalized: {@code ..} behind a link is not the directory that holds the link
     */
    static UserPrincipal ownerOf(Path directory, Set<UserPrincipal> known) throws IOException {
        List<UserPrincipal> owners = new ArrayList<>();
        Entry here = walk(directory, known, owners);
        if (here == null) {
            return null;
        }
        owners.removeAll(known);
        UserPrincipal owner = here.owner;
        return !here.isOpen && owners.stream().allMatch(owner::equals) ? owner : null;
    }

    /**
     * Goes from the root to a directory, and adds the owners of all directories on the way, behind links too; {@code null}
     * where what leads there was made by no known user, though any user may have made it. A user who may write to a directory
     * can make a link or a directory there even if it is sticky.
     */
    private static Entry walk(Path directory, Set<UserPrincipal> known, List<UserPrincipal> owners) throws IOException {
        Entry here = Entry.at(directory.getRoot());
        owners.add(here.owner);
        for (Path name : directory) {
            Entry next = Entry.at(here.step(name.toString()));
            if ((next.isLink || here.isOpen) && !known.contains(next.owner)) {
                return null;
            }
            // The real path has no links.
            here = next.isLink ? walk(next.path.toRealPath(), known, owners) : next;
            if (here == null) {
                return null;
            }
            owners.add(here.owner);
        }
        return here;
    }

    /**
     * What is at a path: a directory on the way to a socket, or a link to one.
     *
     * @param isOpen whether its group or all others may write to it
     */
    private record Entry(Path path, UserPrincipal owner, boolean isOpen, boolean isLink) {
        /** Follows no link. */
        static Entry at(Path path) throws IOException {
            PosixFileAttributes about = Files.readAttributes(path, PosixFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
            Set<PosixFilePermission> may = about.permissions();
            boolean isOpen =
                    may.contains(PosixFilePermission.GROUP_WRITE) || may.contains(PosixFilePermission.OTHERS_WRITE);
            return new Entry(path, about.owner(), isOpen, about.isSymbolicLink());
        }

        private Path step(String name) {
            return switch (name) {
                case "", "." -> path;
                case ".." -> path.getNameCount() < 2 ? path.getRoot() : path.getParent();
                default -> path.resolve(name);
            };
        }
    }
}
