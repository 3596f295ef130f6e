// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/test/cluster/process"
	"github.com/alioth-net/alioth/test/cluster/underlay"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// Places in a packet of the tunnel over IPv4, in bytes.
const (
	etherType    = 12
	outerSource  = 26
	outerTarget  = 30
	outerPort    = 36
	outerVNI     = 46
	innerSource  = 56
	innerClass   = innerSource + 5
	innerHeaders = 64
)

// Classes of packets are the last byte of the inner source (design record 141).
const (
	direct = iota
	returned
	toDivider
	toBouncer
	fromBouncer
)

// ofClass begins the inner source of each packet between nodes.
var ofClass = []byte{2, 0xa1, 7, 0, 2}

// tap sees the packets of one VPC at the switch of the lab, each when its node has sent it.
type tap struct {
	fd    int
	names map[netip.Addr]string
}

// tap begins to see the packets of a tenant, from now on: packets of the class least and of higher
// ones.
func (e *env) tap(t *testing.T, tenant *scene.Tenant, least int) *tap {
	t.Helper()
	c := &tap{fd: -1, names: map[netip.Addr]string{}}
	for _, node := range e.Lab.Nodes() {
		c.names[node.IPv4] = node.Name
	}
	err := process.OnThread(func() (err error) {
		if err := (process.Space{Net: underlay.NetNSPath(e.Lab.Topology().Switch())}).Enter(); err != nil {
			return err
		}
		c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		t.Fatalf("open a socket at the switch: %v", err)
	}
	t.Cleanup(func() { unix.Close(c.fd) })
	if err := c.listen(e.vni(t, tenant), byte(least)); err != nil {
		t.Fatalf("listen at the switch: %v", err)
	}
	return c
}

// vni returns the number of a tenant's VPC on the wire.
func (e *env) vni(t *testing.T, tenant *scene.Tenant) uint32 {
	t.Helper()
	err := e.Client.Get(stage.Within(t, stage.Patience), client.ObjectKeyFromObject(tenant.VPC), tenant.VPC)
	if err != nil || tenant.VPC.Status.VNI == 0 {
		t.Fatalf("VPC %s has no VNI: %v", tenant.VPC.Name, err)
	}
	return uint32(tenant.VPC.Status.VNI)
}

// listen receives packets of a VNI in the tunnel, and of each as much as hops reads. A socket
// without the filter would lose some of them under load.
func (c *tap) listen(vni uint32, least byte) error {
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: etherType, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.ETH_P_IP, SkipTrue: 8},
		bpf.LoadAbsolute{Off: outerPort, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: programs.DefaultTunnelPort, SkipTrue: 6},
		bpf.LoadAbsolute{Off: outerVNI, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 8},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: vni, SkipTrue: 3},
		bpf.LoadAbsolute{Off: innerClass, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: uint32(least), SkipTrue: 1},
		bpf.RetConstant{Val: innerHeaders},
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, 0, len(program))
	for _, i := range program {
		filter = append(filter, unix.SockFilter{Code: i.Op, Jt: i.Jt, Jf: i.Jf, K: i.K})
	}
	return errors.Join(
		unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20),
		unix.SetsockoptSockFprog(c.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}),
		unix.Bind(c.fd, &unix.SockaddrLinklayer{Protocol: unix.ETH_P_ALL << 8}))
}

// hops returns the packets since the last call in their order, each as "from > to: class".
func (c *tap) hops(t *testing.T) (list []string) {
	t.Helper()
	packet := make([]byte, innerHeaders)
	for {
		n, from, err := unix.Recvfrom(c.fd, packet, 0)
		if errors.Is(err, unix.EAGAIN) {
			return list
		}
		if err != nil {
			t.Fatalf("read at the switch: %v", err)
		}
		link, ok := from.(*unix.SockaddrLinklayer)
		if !ok || link.Pkttype == unix.PACKET_OUTGOING || n < innerHeaders {
			continue // the switch passes it on: it was seen when it came
		}
		list = append(list, c.hop(packet))
	}
}

func (c *tap) hop(packet []byte) string {
	at := func(place int) string { return c.names[netip.AddrFrom4([4]byte(packet[place:]))] }
	if !slices.Equal(packet[innerSource:innerClass], ofClass) {
		return hop(at(outerSource), at(outerTarget), -1)
	}
	return hop(at(outerSource), at(outerTarget), int(packet[innerClass]))
}

// hop returns a packet from node to node as text.
func hop(from, to string, class int) string {
	names := map[int]string{direct: "direct", returned: "returned", toDivider: "to divider", toBouncer: "to bouncer", fromBouncer: "from bouncer"}
	return fmt.Sprintf("%s > %s: %s", from, to, cmp.Or(names[class], "without class"))
}

// ping sends one echo request, and returns the hops of the request and its answer between nodes.
func (e *env) ping(t *testing.T, c *tap, from *corev1.Pod, to netip.Addr) []string {
	t.Helper()
	c.hops(t)
	e.InPod(t, from, scene.Tool, "ping", to.String(), "--count", "1", "--interval", "1ms", "--wait", stage.AnswerTime.String())
	return c.hops(t)
}

// expectHops requires the hops of the first packets between two pods, and waits until each later
// packet is sent once: from node to node, or not at all on one.
func (e *env) expectHops(t *testing.T, c *tap, from, to *corev1.Pod, there, back []string) {
	t.Helper()
	for _, v6 := range []bool{false, true} {
		target := scene.IP(to, v6)
		if got, want := e.ping(t, c, from, target), slices.Concat(there, back); !slices.Equal(got, want) {
			t.Errorf("from %s to %s, the first packets were\n%s\nwant\n%s", from.Name, target, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		e.goDirectly(t, c, from, to, v6)
	}
}

// goDirectly waits until packets between two pods take no node's help, and requires that this
// stays.
func (e *env) goDirectly(t *testing.T, c *tap, from, to *corev1.Pod, v6 bool) {
	t.Helper()
	a, b, target := from.Spec.NodeName, to.Spec.NodeName, scene.IP(to, v6)
	var want []string
	if a != b {
		want = []string{hop(a, b, direct), hop(b, a, direct)}
	}
	e.waits(t, fmt.Sprintf("packets from %s to %s to go directly", from.Name, target), func(context.Context) (bool, string, error) {
		got := e.ping(t, c, from, target)
		return slices.Equal(got, want), strings.Join(got, ", "), nil
	})
	const many = 20
	e.InPod(t, from, scene.Tool, "ping", target.String(), "--count", fmt.Sprint(many), "--interval", "1ms", "--wait", stage.AnswerTime.String())
	got := c.hops(t)
	slices.Sort(got)
	var all []string
	for _, one := range want {
		all = append(all, slices.Repeat([]string{one}, many)...)
	}
	slices.Sort(all)
	if !slices.Equal(got, all) {
		t.Errorf("from %s to %s, %d later packets were\n%s", from.Name, target, many, strings.Join(got, "\n"))
	}
}
