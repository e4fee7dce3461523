package consort;

/** Numbers of 64 bits without a sign, as text. */
final class Numbers {
    private Numbers() {}

    /** Digits alone; {@code null} for any other text, and for what has more than 64 bits. */
    static Long read(String text) {
        if (!text.matches("[0-9]{1,40}")) {
            return null;
        }
        try {
            return Long.parseUnsignedLong(text);
        } catch (NumberFormatException tooLarge) {
            return null;
        }
    }

    /** Numbers between slashes, so many; {@code null} for any other text. */
    static long[] between(String text, int count) {
        String[] parts = text.split("/", -1);
        long[] numbers = new long[count];
        for (int at = 0; at < count; at++) {
            Long number = parts.length == count ? read(parts[at]) : null;
            if (number == null) {
                return null;
            }
            numbers[at] = number;
        }
        return numbers;
    }
}
