// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostile has the values that tests set each field of rows and objects to: values with
// another meaning, values of others, and values that no field may have.
package hostile

import (
	"math"
	"strings"
)

// Texts, Addresses, Prefixes and Numbers are the values by their sort. The names exist in the
// worlds of tests.
var (
	Texts = []string{
		"", "nobody", "blue", "default", "red1", "node1", "node2", "b1", "r1", "lan1", "lan1.net", "web", "kubernetes", "kube-system",
		"0.0.0.0", "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "00:00:00:00:00:00", "02:00:00:00:00:01", "TCP", "UDP", "SCTP", "Pod", "Node", "Service",
		"*", "vlan", "vxlan", "a/b", "..", "Upper", "a\nb", "\x1b[31m", "ä", strings.Repeat("x", 64<<10),
	}
	Addresses = []string{
		"0.0.0.0", "::", "255.255.255.255", "224.0.0.1", "ff02::1", "127.0.0.1", "::1", "169.254.64.1", "fe80::1", "::ffff:10.10.1.10",
		"192.0.2.1", "192.0.2.2", "2001:db8::2", "10.10.1.10", "10.10.1.11", "10.10.1.1", "10.244.0.7", "10.96.0.1", "203.0.113.9", "fd00::9", "fe80::1%eth0",
	}
	Prefixes = []string{
		"0.0.0.0/0", "::/0", "127.0.0.0/8", "224.0.0.0/4", "169.254.0.0/16", "192.0.2.0/24", "10.10.0.0/16", "10.10.1.0/24", "10.244.0.0/16",
		"10.96.0.0/16", "::ffff:0:0/96", "::ffff:10.0.0.0/104", "::/64", "10.66.1.9/24", "fd00::/64", "10.66.1.9/32",
	}
	Numbers = []uint64{
		0,
		1,
		20,
		30,
		66,
		80,
		4095,
		4789,
		1<<24 - 1,
		1 << 24,
		1<<24 + 1,
		math.MaxUint16,
		math.MaxUint32,
		math.MaxInt64,
		math.MaxUint64,
	}
)
