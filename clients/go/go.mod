module quorlock

go 1.19
