//! What programs build on a leader: locks, barriers and work queues.
//!
//! A barrier and a work queue have a *desk* at the leader: it alone keeps the table, and tells all members what it decides.
//! A new leader asks all members to report what they know, and begins with that.
pub mod barrier;
pub mod bytes;
pub mod desk;
pub mod lock;
pub mod served;
pub mod work_queue;
