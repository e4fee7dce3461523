//! Messages that are values: turned into bytes by postcard, and back.
use crate::{Addressee, Bytes, Client, Error, Message, Sender, Service, Session};
use postcard::ser_flavors::Flavor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::type_name;
use std::marker::PhantomData;

/// The longest payload of a value where nothing else is said: as much as any cluster allows.
const MOST: usize = 16 << 20;

/// Turns values of one type into payloads and back, up to a size.
///
/// A payload is [postcard](https://docs.rs/postcard)'s form of the value, and nothing else: it does not say of which type it is.
/// All programs of a group must have the same type; fields are known by their order, so one that is added makes another type.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use consort::Typed;
///
/// #[derive(serde::Serialize, serde::Deserialize, Debug, PartialEq)]
/// struct Order {
///     article: String,
///     count: u32,
/// }
///
/// let orders = Typed::<Order>::new().at_most(1_000);
/// let payload = orders.encode(&Order { article: "tea".into(), count: 12 })?;
/// assert_eq!(orders.decode(&payload)?.count, 12);
/// let wrong = orders.decode(b"\x03te").unwrap_err();
/// assert!(wrong.to_string().starts_with("a payload of 3 bytes is no "));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Typed<T> {
    most: usize,
    values: PhantomData<fn(T) -> T>,
}

// Derives would ask the same of `T`.
impl<T> Clone for Typed<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Typed<T> {}

impl<T> Default for Typed<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Why a value is no payload, or a payload no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TypedError {
    /// The value's form is longer than is allowed.
    #[error("a {of} takes more than the {most} bytes that are allowed")]
    TooLarge {
        /// The type's name.
        of: &'static str,
        /// The limit in bytes.
        most: usize,
    },
    /// The value has no form, such as a sequence whose length is not known.
    #[error("a {of} cannot be encoded: {why}")]
    Unencodable {
        /// The type's name.
        of: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A payload is longer than is allowed; it was not looked at.
    #[error("a payload of {len} bytes is longer than the {most} bytes that are allowed for a {of}")]
    TooLong {
        /// The type's name.
        of: &'static str,
        /// The payload's length in bytes.
        len: usize,
        /// The limit in bytes.
        most: usize,
    },
    /// A payload is no value of the type.
    #[error("a payload of {len} bytes is no {of}: {why}; do all programs of the group have the same type?")]
    Undecodable {
        /// The type's name.
        of: &'static str,
        /// The payload's length in bytes.
        len: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A payload begins with a value of the type, and more stands behind it.
    #[error(
        "a payload of {len} bytes is a {of} and {rest} bytes more; do all programs of the group have the same type?"
    )]
    Trailing {
        /// The type's name.
        of: &'static str,
        /// The payload's length in bytes.
        len: usize,
        /// How many bytes stand behind the value.
        rest: usize,
    },
}

impl<T> Typed<T> {
    /// Values of up to 16 MiB.
    pub const fn new() -> Self {
        Self { most: MOST, values: PhantomData }
    }

    /// Values of up to so many bytes.
    #[must_use]
    pub const fn at_most(self, bytes: usize) -> Self {
        Self { most: bytes, ..self }
    }
}

impl<T: Serialize> Typed<T> {
    /// The payload of a value.
    ///
    /// # Errors
    /// [`TypedError::TooLarge`] as soon as it is longer than is allowed; [`TypedError::Unencodable`].
    pub fn encode(&self, value: &T) -> Result<Bytes, TypedError> {
        encode(value, self.most)
    }
}

impl<T: DeserializeOwned> Typed<T> {
    /// The value of a payload, which must end where the value does.
    ///
    /// # Errors
    /// [`TypedError::TooLong`], [`TypedError::Undecodable`] or [`TypedError::Trailing`].
    pub fn decode(&self, payload: &[u8]) -> Result<T, TypedError> {
        let (of, len, most) = (type_name::<T>(), payload.len(), self.most);
        if len > most {
            return Err(TypedError::TooLong { of, len, most });
        }
        let undecodable = |error: postcard::Error| TypedError::Undecodable { of, len, why: error.to_string() };
        let (value, rest) = postcard::take_from_bytes(payload).map_err(undecodable)?;
        let rest = <[u8]>::len(rest);
        if rest == 0 { Ok(value) } else { Err(TypedError::Trailing { of, len, rest }) }
    }
}

/// Collects up to so many bytes.
struct UpTo {
    bytes: Vec<u8>,
    most: usize,
}

impl Flavor for UpTo {
    type Output = Vec<u8>;

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.try_extend(&[byte])
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        if bytes.len() > self.most - self.bytes.len() {
            return Err(postcard::Error::SerializeBufferFull);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<Vec<u8>> {
        Ok(self.bytes)
    }
}

fn encode<T: Serialize + ?Sized>(value: &T, most: usize) -> Result<Bytes, TypedError> {
    let of = type_name::<T>();
    match postcard::serialize_with_flavor(value, UpTo { bytes: Vec::new(), most }) {
        Ok(bytes) => Ok(bytes.into()),
        Err(postcard::Error::SerializeBufferFull) => Err(TypedError::TooLarge { of, most }),
        Err(error) => Err(TypedError::Unencodable { of, why: error.to_string() }),
    }
}

/// Reads a message as a value: `message.decode::<Order>()`.
pub trait Decode {
    /// The value that was sent with one of the typed calls, such as [`Session::send_typed`].
    ///
    /// # Errors
    /// As [`Typed::decode`].
    fn decode<T: DeserializeOwned>(&self) -> Result<T, TypedError>;
}

impl Decode for Message {
    fn decode<T: DeserializeOwned>(&self) -> Result<T, TypedError> {
        Typed::new().decode(self.payload())
    }
}

#[cfg(feature = "tokio")]
impl crate::Draft {
    /// A message that is a value.
    ///
    /// # Errors
    /// [`Error::Targets`] as [`Draft::new`](crate::Draft::new); [`Error::Typed`].
    pub fn typed<A: Addressee, T: Serialize + ?Sized>(service: Service, to: &[A], value: &T) -> Result<Self, Error> {
        Self::new(service, to, encode(value, MOST)?)
    }
}

impl Client {
    /// As [`Client::multicast`], of a value.
    ///
    /// # Errors
    /// [`Error::Typed`]: nothing was sent. Otherwise as there.
    pub fn multicast_typed<A: Addressee, T: Serialize + ?Sized>(
        &mut self,
        service: Service,
        to: &[A],
        value: &T,
    ) -> Result<u64, Error> {
        let payload = encode(value, self.welcome().message_max as usize)?;
        self.multicast(service, to, &payload)
    }
}

impl Sender {
    /// As [`Sender::multicast`], of a value.
    ///
    /// # Errors
    /// [`Error::Typed`]: nothing was sent. Otherwise as there.
    pub fn multicast_typed<A: Addressee, T: Serialize + ?Sized>(
        &mut self,
        service: Service,
        to: &[A],
        value: &T,
    ) -> Result<u64, Error> {
        self.multicast(service, to, &encode(value, MOST)?)
    }
}

impl Session {
    /// As [`Session::send`], of a value.
    ///
    /// # Errors
    /// [`Error::Typed`]: nothing was sent. Otherwise as there.
    pub fn send_typed<A: Addressee, T: Serialize + ?Sized>(
        &mut self,
        service: Service,
        to: &[A],
        value: &T,
    ) -> Result<u64, Error> {
        self.send(service, to, &encode(value, MOST)?)
    }
}

#[cfg(feature = "tokio")]
impl crate::AsyncClient {
    /// As [`AsyncClient::multicast`](crate::AsyncClient::multicast), of a value.
    ///
    /// # Errors
    /// [`Error::Typed`]: nothing was sent. Otherwise as there.
    pub async fn multicast_typed<A: Addressee, T: Serialize + ?Sized>(
        &mut self,
        service: Service,
        to: &[A],
        value: &T,
    ) -> Result<u64, Error> {
        let payload = encode(value, self.welcome().message_max as usize)?;
        self.multicast(service, to, &payload).await
    }
}

#[cfg(feature = "tokio")]
impl crate::AsyncSession {
    /// As [`AsyncSession::send`](crate::AsyncSession::send), of a value.
    ///
    /// # Errors
    /// [`Error::Typed`]: nothing was sent. Otherwise as there.
    pub async fn send_typed<A: Addressee, T: Serialize + ?Sized>(
        &mut self,
        service: Service,
        to: &[A],
        value: &T,
    ) -> Result<u64, Error> {
        self.send(service, to, &encode(value, MOST)?).await
    }
}

#[cfg(feature = "tokio")]
impl crate::AsyncSessionSender {
    /// As [`AsyncSession::send`](crate::AsyncSession::send), of a value.
    ///
    /// # Errors
    /// [`Error::Typed`]: nothing was sent. Otherwise as there.
    pub async fn send_typed<A: Addressee, T: Serialize + ?Sized>(
        &mut self,
        service: Service,
        to: &[A],
        value: &T,
    ) -> Result<u64, Error> {
        self.send(service, to, &encode(value, MOST)?).await
    }
}

#[cfg(test)]
mod tests;
