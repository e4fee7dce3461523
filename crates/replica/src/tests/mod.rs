mod model;
mod schedules;
