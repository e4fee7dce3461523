mod model;
mod recipes;
mod rules;
