module temporal-nova/bench/peers/gophercloud

go 1.25.0

require github.com/gophercloud/gophercloud/v2 v2.16.0
