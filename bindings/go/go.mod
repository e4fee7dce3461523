module consort

go 1.22
