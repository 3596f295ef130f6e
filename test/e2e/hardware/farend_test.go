// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// makeFar makes the network namespace "far" of the virtual machine. It has the other ends of eth1
// and eth2: one bridge with a VLAN, and a server of DHCP and of names on both. Packets between
// them leave the kernel's stack and come back through the network adapters far1 and far2. The
// kernel adds a rule with the first VRF for ever, so one was there before.
const makeFar = `
ip link add probe0 type vrf table 99
ip link del probe0
ip netns add far
for link in eth1 eth2; do sysctl -qw net.ipv6.conf.$link.accept_dad=0 net.ipv6.conf.$link.accept_ra=0 net.ipv6.conf.$link.autoconf=0; done
ip link set far1 netns far
ip link set far2 netns far
nsenter --net=/run/netns/far sh -ec '` + realIP + `
sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0
ip link set lo up
ip link add far0 type bridge
ip link set far1 master far0 up
ip link set far2 master far0 up
ip link set far0 up
ip addr add 198.51.100.1/24 dev far0
ip addr add 2001:db8:100::1/64 dev far0
ip link add far0.102 link far0 type vlan id 102
ip link set far0.102 up
ip addr add 203.0.113.1/24 dev far0.102
dnsmasq --conf-file=/dev/null --user=root --no-resolv --no-hosts --no-ping --pid-file=/run/far.pid --dhcp-leasefile=/run/far.leases --dhcp-authoritative \
  --dhcp-range=198.51.100.100,198.51.100.199,10m --dhcp-range=203.0.113.100,203.0.113.199,10m \
  --dhcp-range=2001:db8:100::100,2001:db8:100::1ff,64,10m --enable-ra --ra-param=far0,0,0 --dhcp-option=option:domain-search,lease.example
'
for link in eth1 eth2; do
  ip link set $link up
  until ip -6 route show table all dev $link | grep -q ^multicast && ip -6 addr show dev $link | grep -q 'inet6 fe80'; do sleep 0.1; done
done
`

// removeFar removes it. The kernel gives the node its adapters back.
const removeFar = `
if [ -e /run/far.pid ]; then kill -CONT $(cat /run/far.pid); kill $(cat /run/far.pid); fi
rm -f /run/far.pid /run/far.leases
ip link set eth1 down
ip link set eth2 down
ip netns del far
until [ -e /sys/class/net/far1 ] && [ -e /sys/class/net/far2 ]; do sleep 0.1; done
`

// connect gives eth1 and eth2 their other ends for the time of a test.
func (e *env) connect(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { e.onGuest(t, removeFar) })
	e.onGuest(t, makeFar)
}

// networkLines prints the state of a node's network. It leaves out the numbers of interfaces,
// timers and lifetimes: an interface that is made again has another number. It also leaves out
// routes with an end, which come with the next advertisement, and the fields about their use. A
// bond keeps the limits of ports that it once had, and the discipline noqueue once it was up.
const networkLines = `
ip -o -d link show | sed -E 's/^[0-9]+: //; s/[a-z_]+_timer +[0-9.]+//g; s/ link-netnsid [0-9]+//; s/ tso_max_(size|segs) [0-9]+//g; s/ qdisc (noop|noqueue) state DOWN/ state DOWN/' | sort
ip -o addr show | sed -E 's/^[0-9]+: //; s/[0-9]+sec/Nsec/g' | sort
for family in -4 -6; do
  ip $family route show table all | grep -v expires | sort
  ip $family rule show
done
ip neigh show nud permanent | sort
bridge vlan show
echo "the resolver:"
cat /etc/resolv.conf 2>&1 || true
grep -s "" /proc/sys/net/ipv4/conf/eth[12]/* /proc/sys/net/ipv6/conf/eth[12]/* | grep -v -e /accept_ra_ -e /ra_defrtr_metric || true
`

// lookAtNetwork returns the lines of networkLines.
func (e *env) lookAtNetwork(t *testing.T) []string {
	t.Helper()
	return strings.Split(e.onGuest(t, networkLines), "\n")
}

// awaitNetwork waits until the network of the node is as before.
func (e *env) awaitNetwork(t *testing.T, was []string) {
	t.Helper()
	e.until(t, "the node's network to be what it was", func() (bool, string) {
		diff := cmp.Diff(was, e.lookAtNetwork(t))
		return diff == "", "(-was +is):\n" + diff
	})
}
