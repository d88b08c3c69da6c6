module leafd

go 1.19
