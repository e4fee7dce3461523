mod model;
mod parted;
mod scene;
mod schedules;
mod starts;
