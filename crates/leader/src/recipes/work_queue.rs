//! A work queue: each job is one worker's at a time, and its result is told once.
use super::bytes::{Reader, Writer};
use super::desk::Recipe;
use super::served::Served;
use crate::{CandidateId, Error, Fence, LeadershipOptions};
use consort::{Address, GroupName};
use std::collections::btree_map::Entry as MapEntry;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

/// A job or a result has so many bytes at most, and the jobs of one member that are not finished together.
const BYTES_MAX: usize = 64 << 10;
const UNFINISHED_MAX: usize = 512 << 10;
/// So many results are kept for submitters that have not taken them.
const KEPT_MAX: usize = 4_096;

/// A queue of jobs that all programs share which name its group: each may submit, and each may work.
///
/// ```no_run
/// use consort::GroupName;
/// use consort_leader::{LeadershipOptions, WorkQueue};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let group = GroupName::new("thumbnails")?;
/// let mut queue = WorkQueue::join(&["10.0.0.1:4840".parse()?], &group, LeadershipOptions::default())?;
/// while let Some(job) = queue.next_job(None)? {
///     println!("{}: {} bytes, fence {}", job.id, job.payload.len(), job.fence);
///     queue.done(&job, b"ok")?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct WorkQueue {
    served: Served<Jobs>,
}

/// Names a job: who submitted it, and which of its jobs it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    /// Who.
    pub submitter: CandidateId,
    /// Counted from 1.
    pub number: u64,
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.submitter, self.number)
    }
}

/// A job that was given to this member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Which.
    pub id: JobId,
    /// Greater than that of whoever had the job before: what the job writes to may refuse smaller ones.
    pub fence: Fence,
    /// What is to be done.
    pub payload: Vec<u8>,
}

/// What a member knows, and what the desk knows of the jobs.
#[derive(Debug)]
pub struct Jobs {
    me: CandidateId,
    made: u64,
    /// Submitted here and not finished.
    own: BTreeMap<u64, Vec<u8>>,
    finished: VecDeque<(JobId, Vec<u8>)>,
    wants: bool,
    hand: Option<Hand>,
    changes: VecDeque<Vec<u8>>,
    desk: BTreeMap<JobId, Entry>,
    /// Jobs that nobody has, the next one first.
    free: VecDeque<JobId>,
    idle: VecDeque<CandidateId>,
    /// Results that their submitters have not taken yet.
    kept: BTreeMap<JobId, Vec<u8>>,
    decisions: VecDeque<Vec<u8>>,
}

/// The job that this member has.
#[derive(Debug)]
struct Hand {
    job: Job,
    told: bool,
    result: Option<Vec<u8>>,
}

/// A job at the desk.
#[derive(Debug)]
struct Entry {
    payload: Vec<u8>,
    /// Who has it, and where that was decided, once it has a place.
    given: Option<(CandidateId, Option<Fence>)>,
}

impl WorkQueue {
    /// Joins a queue's group.
    ///
    /// # Errors
    /// As [`crate::Leadership::join`].
    pub fn join(addresses: &[Address], group: &GroupName, options: LeadershipOptions) -> Result<Self, Error> {
        Ok(Self { served: Served::start(addresses, group, options, Jobs::new)? })
    }

    /// Submits a job. It lives as long as this member does, or a worker has it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for more than 64 KiB, or where 512 KiB of this member's jobs are not finished.
    pub fn submit(&mut self, payload: &[u8]) -> Result<JobId, Error> {
        check("the size of a job in bytes", payload.len(), BYTES_MAX)?;
        self.served.with(|jobs| {
            let unfinished: usize = jobs.own.values().map(Vec::len).sum();
            check("the size of all unfinished jobs in bytes", unfinished + payload.len(), UNFINISHED_MAX)?;
            Ok(jobs.submit(payload))
        })
    }

    /// The next of this member's own jobs that is finished, with its result: each is told once. `None` if none was in time.
    ///
    /// # Errors
    /// Whatever ended the session.
    pub fn finished(&mut self, within: impl Into<Option<Duration>>) -> Result<Option<(JobId, Vec<u8>)>, Error> {
        self.served.wait(within.into(), Jobs::poll_finished)
    }

    /// The next job for this member; `None` if none was in time. Whoever has one gets no other before [`Self::done`].
    ///
    /// # Errors
    /// Whatever ended the session.
    pub fn next_job(&mut self, within: impl Into<Option<Duration>>) -> Result<Option<Job>, Error> {
        let job = self.served.wait(within.into(), |jobs| {
            // It counts once the job before is let go of.
            jobs.want(true);
            jobs.take_job()
        })?;
        if job.is_some() {
            return Ok(job);
        }
        self.served.with(|jobs| jobs.want(false));
        Ok(None)
    }

    /// Whether a job is still this member's, as far as the order has been received. It is not where this member was cut off
    /// and another has it.
    pub fn has(&mut self, job: &Job) -> bool {
        self.served.with(|jobs| jobs.has(job))
    }

    /// The job is done. Returns whether it was still this member's; the result of another's is not wanted.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a result of more than 64 KiB.
    pub fn done(&mut self, job: &Job, result: &[u8]) -> Result<bool, Error> {
        check("the size of a result in bytes", result.len(), BYTES_MAX)?;
        Ok(self.served.with(|jobs| jobs.done(job, result)))
    }
}

const fn check(what: &'static str, given: usize, most: usize) -> Result<(), Error> {
    if given > most {
        return Err(Error::OutOfRange { what, given: given as u64, least: 0, most: most as u64 });
    }
    Ok(())
}

/// What a member says.
const SUBMIT: u8 = 1;
const WANT: u8 = 2;
const UNWANT: u8 = 3;
const HAS: u8 = 4;
const DONE: u8 = 5;
const RETURN: u8 = 6;
const TOOK: u8 = 7;
/// What the desk decides.
const GIVE: u8 = 1;
const FINISH: u8 = 2;
const REVOKE: u8 = 3;

impl Jobs {
    pub(crate) const fn new(me: CandidateId) -> Self {
        Self {
            me,
            made: 0,
            own: BTreeMap::new(),
            finished: VecDeque::new(),
            wants: false,
            hand: None,
            changes: VecDeque::new(),
            desk: BTreeMap::new(),
            free: VecDeque::new(),
            idle: VecDeque::new(),
            kept: BTreeMap::new(),
            decisions: VecDeque::new(),
        }
    }

    pub(crate) fn submit(&mut self, payload: &[u8]) -> JobId {
        self.made += 1;
        let id = JobId { submitter: self.me, number: self.made };
        self.own.insert(self.made, payload.to_vec());
        self.changes.push_back(said(SUBMIT, id).bytes(payload).0);
        id
    }

    pub(crate) fn poll_finished(&mut self) -> Option<(JobId, Vec<u8>)> {
        self.finished.pop_front()
    }

    pub(crate) fn want(&mut self, wants: bool) {
        if wants != self.wants && (self.hand.is_none() || !wants) {
            self.wants = wants;
            self.changes.push_back(vec![if wants { WANT } else { UNWANT }]);
        }
    }

    pub(crate) fn take_job(&mut self) -> Option<Job> {
        let hand = self.hand.as_mut().filter(|hand| !hand.told)?;
        hand.told = true;
        Some(hand.job.clone())
    }

    fn has(&self, job: &Job) -> bool {
        self.hand.as_ref().is_some_and(|hand| hand.job.fence == job.fence && hand.job.id == job.id)
    }

    pub(crate) fn done(&mut self, job: &Job, result: &[u8]) -> bool {
        if !self.has(job) {
            return false;
        }
        if let Some(hand) = &mut self.hand {
            hand.result = Some(result.to_vec());
        }
        self.changes.push_back(said(DONE, job.id).fence(job.fence).bytes(result).0);
        true
    }

    /// What was given to this member.
    fn given(&mut self, id: JobId, fence: Fence, payload: Vec<u8>) {
        if self.hand.is_some() || !self.wants {
            self.changes.push_back(said(RETURN, id).fence(fence).0);
            return;
        }
        self.wants = false;
        self.hand = Some(Hand { job: Job { id, fence, payload }, told: false, result: None });
    }

    fn on_finish(&mut self, id: JobId, result: Vec<u8>) {
        self.hand = self.hand.take().filter(|hand| hand.job.id != id);
        if id.submitter != self.me {
            return;
        }
        if self.own.remove(&id.number).is_some() {
            self.finished.push_back((id, result));
        }
        self.changes.push_back(said(TOOK, id).0);
    }

    fn take_decision(&mut self, place: Fence, decision: &[u8]) -> Option<()> {
        let mut reader = Reader(decision);
        let (kind, id) = (reader.kind()?, read_id(&mut reader)?);
        match kind {
            GIVE => {
                let worker = reader.candidate()?;
                if let Some((given, at @ None)) = self.desk.get_mut(&id).and_then(|entry| entry.given.as_mut())
                    && *given == worker
                {
                    *at = Some(place);
                }
                if worker != self.me {
                    self.hand = self.hand.take().filter(|hand| hand.job.id != id);
                } else {
                    self.given(id, place, reader.bytes()?);
                }
            }
            FINISH => self.on_finish(id, reader.bytes()?),
            REVOKE => {
                let (worker, fence) = (reader.candidate()?, reader.fence()?);
                self.hand = self.hand.take().filter(|hand| worker != self.me || hand.job.fence != fence);
            }
            _ => {}
        }
        Some(())
    }

    fn take_change(&mut self, member: CandidateId, reader: &mut Reader<'_>) -> Option<()> {
        let kind = reader.kind()?;
        if kind == WANT || kind == UNWANT {
            self.idle.retain(|idle| *idle != member);
            self.idle.extend((kind == WANT).then_some(member));
            return Some(());
        }
        let id = read_id(reader)?;
        match kind {
            SUBMIT => self.on_submit(id, reader.bytes()?),
            HAS => {
                let fence = reader.fence()?;
                self.on_has(member, id, fence, reader.bytes()?);
            }
            DONE => {
                let fence = reader.fence()?;
                self.on_done(member, id, fence, reader.bytes()?);
            }
            RETURN => {
                let fence = reader.fence()?;
                if self.gave(id, member, fence) {
                    self.free(id);
                }
            }
            TOOK => drop(self.kept.remove(&id)),
            _ => return None,
        }
        Some(())
    }

    fn on_submit(&mut self, id: JobId, payload: Vec<u8>) {
        if let Some(result) = self.kept.get(&id) {
            self.decisions.push_back(said(FINISH, id).bytes(result).0);
        } else if let MapEntry::Vacant(entry) = self.desk.entry(id) {
            entry.insert(Entry { payload, given: None });
            self.free.push_back(id);
        }
    }

    /// A worker reports a job that it has. Whoever was given it last keeps it.
    fn on_has(&mut self, worker: CandidateId, id: JobId, fence: Fence, payload: Vec<u8>) {
        let given = self.desk.get(&id).and_then(|entry| entry.given);
        let later = given.is_some_and(|(other, at)| other != worker && at.is_none_or(|at| at > fence));
        if later || self.kept.contains_key(&id) {
            self.decisions.push_back(said(REVOKE, id).candidate(worker).fence(fence).0);
            return;
        }
        self.free.retain(|free| *free != id);
        self.desk.insert(id, Entry { payload, given: Some((worker, Some(fence))) });
    }

    fn gave(&self, id: JobId, worker: CandidateId, fence: Fence) -> bool {
        self.desk.get(&id).is_some_and(|entry| entry.given == Some((worker, Some(fence))))
    }

    fn on_done(&mut self, worker: CandidateId, id: JobId, fence: Fence, result: Vec<u8>) {
        //= L15
        if !self.gave(id, worker, fence) {
            self.decisions.push_back(said(REVOKE, id).candidate(worker).fence(fence).0);
            return;
        }
        self.desk.remove(&id);
        self.decisions.push_back(said(FINISH, id).bytes(&result).0);
        //= L16
        self.kept.insert(id, result);
        if self.kept.len() > KEPT_MAX {
            // So many wait only where submitters are gone.
            self.kept.pop_first();
        }
    }

    /// Nobody has it any more: it is the next one.
    fn free(&mut self, id: JobId) {
        if let Some(entry) = self.desk.get_mut(&id) {
            entry.given = None;
            self.free.push_front(id);
        }
    }

    fn give(&mut self) -> Option<Vec<u8>> {
        if self.free.is_empty() {
            return None;
        }
        let worker = self.idle.pop_front()?;
        let id = self.free.pop_front()?;
        let entry = self.desk.get_mut(&id)?;
        entry.given = Some((worker, None));
        Some(said(GIVE, id).candidate(worker).bytes(&entry.payload).0)
    }
}

fn said(kind: u8, id: JobId) -> Writer {
    Writer::kind(kind).candidate(id.submitter).u64(id.number)
}

fn read_id(reader: &mut Reader<'_>) -> Option<JobId> {
    Some(JobId { submitter: reader.candidate()?, number: reader.u64()? })
}

impl Recipe for Jobs {
    fn report(&mut self) -> Vec<u8> {
        self.changes.clear();
        let mut out = Writer::default();
        if let Some(Hand { job, result, .. }) = &self.hand {
            out.0.extend(said(HAS, job.id).fence(job.fence).bytes(&job.payload).0);
            if let Some(result) = result {
                out.0.extend(said(DONE, job.id).fence(job.fence).bytes(result).0);
            }
        }
        for (number, payload) in &self.own {
            out.0.extend(said(SUBMIT, JobId { submitter: self.me, number: *number }).bytes(payload).0);
        }
        if self.wants {
            out.0.push(WANT);
        }
        out.0
    }

    fn poll_change(&mut self) -> Option<Vec<u8>> {
        self.changes.pop_front()
    }

    fn handle_decision(&mut self, place: Fence, decision: &[u8]) {
        // What cannot be read is of another release.
        let _ = self.take_decision(place, decision);
    }

    fn clear(&mut self) {
        self.desk.clear();
        self.free.clear();
        self.idle.clear();
        self.kept.clear();
        self.decisions.clear();
    }

    fn handle_report(&mut self, member: CandidateId, report: &[u8]) {
        let mut reader = Reader(report);
        while !reader.0.is_empty() && self.take_change(member, &mut reader).is_some() {}
    }

    fn handle_change(&mut self, member: CandidateId, change: &[u8]) {
        let _ = self.take_change(member, &mut Reader(change));
    }

    fn handle_gone(&mut self, member: CandidateId) {
        self.idle.retain(|idle| *idle != member);
        let had = self.desk.iter().filter(|(_, entry)| entry.given.is_some_and(|(worker, _)| worker == member));
        let had: Vec<_> = had.map(|(id, _)| *id).collect();
        had.into_iter().for_each(|id| self.free(id));
        // Nobody waits for what nobody has begun.
        self.free.retain(|id| id.submitter != member);
        self.desk.retain(|id, entry| id.submitter != member || entry.given.is_some());
        self.kept.retain(|id, _| id.submitter != member);
    }

    fn poll_decision(&mut self, complete: bool) -> Option<Vec<u8>> {
        self.decisions.pop_front().or_else(|| if complete { self.give() } else { None })
    }
}
