// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/cni/drivers/netkit"
	"github.com/alioth-net/alioth/cnid/cni/drivers/pair"
	"github.com/alioth-net/alioth/cnid/cni/drivers/veth"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/test/waits"
)

var (
	_       ifdriver.Driver = (*pair.Driver)(nil)
	hostMAC                 = net.HardwareAddr{2, 0xa1, 7, 0, 0, 1}
)

// node is a namespace that plays the node's, with a driver for it.
type node struct {
	*netnstest.Namespace
	attacher *pair.Driver
}

// everyKind runs a test with each kind of pair that the kernel has.
func everyKind(t *testing.T, test func(*testing.T, pair.Devices)) {
	t.Helper()
	for _, kind := range []pair.Devices{veth.Devices, netkit.Devices} {
		t.Run(string(kind.Kind), func(t *testing.T) {
			need(t, kind)
			test(t, kind)
		})
	}
}

// need skips a test if the kernel is too old, or was built without the kind.
func need(t testing.TB, kind pair.Devices) {
	t.Helper()
	if err := pair.Probe(t.Context(), kind); errors.Is(err, ifdriver.ErrUnsupported) && kind.Kind != veth.Kind {
		t.Skipf("missing feature: %s (Linux 6.7)", kind.Kind)
	}
}

func newNode(t testing.TB, kind pair.Devices) node {
	t.Helper()
	n := node{Namespace: netnstest.New(t)}
	n.Do(t, func() error {
		var err error
		n.attacher, err = pair.New(kind, hostMAC)
		return err
	})
	t.Cleanup(n.attacher.Close)
	return n
}

func spec(pod *netnstest.Namespace, addrs ...string) ifdriver.Spec {
	if len(addrs) == 0 {
		addrs = []string{"10.10.1.7/24", "fd10:10:0:1::7/64"}
	}
	s := ifdriver.Spec{
		ContainerID: "0123456789abcdef", IfName: "eth0", Description: "customer-a/web-1",
		NetnsPath: pod.Path, MAC: net.HardwareAddr{2, 0, 10, 10, 1, 7}, Config: netif.Config{MTU: 1450},
	}
	for _, a := range addrs {
		s.Addrs = append(s.Addrs, netip.MustParsePrefix(a))
		s.Gateways = append(s.Gateways, netip.MustParsePrefix(a).Masked().Addr().Next())
	}
	return s
}

// Each of these spares everybody on the machine a wait of the kernel's under
// the lock of all devices.
func TestPair_Attach_NoKernelGracePeriodWait(t *testing.T) {
	everyKind(t, testAPairNeedsNoWaitOfTheKernel)
}

func testAPairNeedsNoWaitOfTheKernel(t *testing.T, kind pair.Devices) {
	n, pod := newNode(t, kind), netnstest.New(t)
	s := spec(pod)
	if _, err := n.attacher.Attach(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	host, end := n.Link(t, n.attacher.HostName(s.ContainerID, s.IfName)), pod.Link(t, s.IfName)
	for _, a := range []*netlink.LinkAttrs{host.Attrs(), end.Attrs()} {
		if a.NumTxQueues != 1 || a.NumRxQueues != 1 {
			t.Errorf("%s was made with %d and %d queues, want one each", a.Name, a.NumTxQueues, a.NumRxQueues)
		}
	}
	n.Do(t, func() error {
		qdiscs, err := netlink.QdiscList(host)
		if !slices.ContainsFunc(qdiscs, func(q netlink.Qdisc) bool { return q.Type() == "clsact" }) {
			t.Errorf("the host end has no place for programs: %v", qdiscs)
		}
		return err
	})
}

func TestPair_Attach_PodGetsOnlyItsInterface(t *testing.T) {
	everyKind(t, testAPodGetsItsInterfaceAndNothingElse)
}

func testAPodGetsItsInterfaceAndNothingElse(t *testing.T, kind pair.Devices) {
	n, pod := newNode(t, kind), netnstest.New(t)
	pod.BelieveNeighbours(t)
	s := spec(pod)
	s.AltName = "blue"
	got, err := n.attacher.Attach(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}

	host := n.Link(t, n.attacher.HostName(s.ContainerID, s.IfName))
	id, err := netns.Identify(pod.Path)
	if err != nil {
		t.Fatal(err)
	}
	want := ifdriver.Link{
		HostIfName: host.Attrs().Name, HostIfindex: host.Attrs().Index, HostMAC: hostMAC,
		NetnsInode: id.Inode, NetnsCookie: id.Cookie,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("link (-want +got):\n%s", diff)
	}
	if a := host.Attrs(); len(a.Name) != 15 || !strings.HasPrefix(a.Name, pair.HostPrefix) || a.MTU != 1450 ||
		!bytes.Equal(a.HardwareAddr, hostMAC) || a.RawFlags&unix.IFF_NOARP == 0 || a.RawFlags&unix.IFF_UP == 0 || a.Group != hostdev.PodGroup {
		t.Errorf("host end is %+v", a)
	}
	if !strings.Contains(host.Attrs().Alias, "customer-a/web-1") {
		t.Errorf("host end's alias %q does not name the pod", host.Attrs().Alias)
	}
	link := pod.Link(t, "eth0").Attrs()
	// The kernel reports it a moment after the device is up.
	for end := time.Now().Add(waits.Limit(10 * time.Second)); link.OperState != netlink.OperUp && time.Now().Before(end); {
		link = pod.Link(t, "eth0").Attrs()
	}
	if link.MTU != 1450 || !bytes.Equal(link.HardwareAddr, s.MAC) || link.OperState != netlink.OperUp {
		t.Errorf("pod's end is %+v", link)
	}
	if alt := pod.Link(t, "blue").Attrs(); alt.Index != link.Index {
		t.Errorf("the other name belongs to %s", alt.Name)
	}
	if diff := cmp.Diff([]string{"127.0.0.1/8 lo", "10.10.1.7/24 eth0", "::1/128 lo", "fd10:10:0:1::7/64 eth0"}, addresses(t, pod)); diff != "" {
		t.Errorf("addresses in the pod (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{}, addresses(t, n.Namespace)); diff != "" {
		t.Errorf("addresses on the node (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"10.10.1.1", "fd10:10:0:1::1"}, gateways(t, pod)); diff != "" {
		t.Errorf("default routes (-want +got):\n%s", diff)
	}
	wanted := append(slices.Clone(hostdev.PodSettings),
		hostdev.Setting{Family: ipfamily.IPv6, Name: "addr_gen_mode", Value: 1}, hostdev.Setting{Family: ipfamily.IPv6, Name: "disable_ipv6"})
	for _, want := range wanted {
		if got := pod.Setting(t, hostdev.FamilyFolder(want.Family), "eth0", want.Name); got != strconv.Itoa(want.Value) {
			t.Errorf("setting %s of %s is %s, want %d", want.Name, want.Family, got, want.Value)
		}
	}
}

// addresses lists "address device" of all that are there, and fails the test
// for one that is not usable yet.
func addresses(t testing.TB, n *netnstest.Namespace) []string {
	t.Helper()
	out := []string{}
	n.Do(t, func() error {
		for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
			list, err := netlink.AddrList(nil, family)
			if err != nil {
				return err
			}
			for _, a := range list {
				if a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 {
					t.Errorf("address %s is tentative", a.IPNet)
				}
				link, err := netlink.LinkByIndex(a.LinkIndex)
				if err != nil {
					return err
				}
				out = append(out, a.IPNet.String()+" "+link.Attrs().Name)
			}
		}
		return nil
	})
	return out
}

func gateways(t testing.TB, n *netnstest.Namespace) []string {
	t.Helper()
	var out []string
	n.Do(t, func() error {
		for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
			list, err := netlink.RouteList(nil, family)
			if err != nil {
				return err
			}
			for _, r := range list {
				if r.Gw != nil {
					out = append(out, r.Gw.String())
				}
			}
		}
		return nil
	})
	return out
}

func TestPair_OneFamilyOrUnusualGateway_Attached(t *testing.T) {
	everyKind(t, testAddressesOfOneFamilyOrAnAwkwardGatewayWork)
}

func testAddressesOfOneFamilyOrAnAwkwardGatewayWork(t *testing.T, kind pair.Devices) {
	for _, tc := range []struct {
		name    string
		addr    string
		gateway string
	}{
		{"IPv4 only", "10.10.1.7/24", "10.10.1.1"},
		{"IPv6 only", "fd10:10:0:1::7/64", "fd10:10:0:1::1"},
		{"a single IPv4 address", "10.10.1.7/32", "10.10.1.1"},
		{"a single IPv6 address", "fd10:10:0:1::7/128", "fe80::1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, pod := newNode(t, kind), netnstest.New(t)
			s := spec(pod, tc.addr)
			s.Gateways = []netip.Addr{netip.MustParseAddr(tc.gateway)}
			if _, err := n.attacher.Attach(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tc.gateway}, gateways(t, pod)); diff != "" {
				t.Errorf("default routes (-want +got):\n%s", diff)
			}
			if _, err := n.attacher.Check(t.Context(), s); err != nil {
				t.Errorf("check: %v", err)
			}
		})
	}
}

func TestPairIPv6_DisabledByRuntime_Enabled(t *testing.T) {
	everyKind(t, testIPv6IsTurnedOnWhereTheRuntimeTurnedItOff)
}

func testIPv6IsTurnedOnWhereTheRuntimeTurnedItOff(t *testing.T, kind pair.Devices) {
	n, pod := newNode(t, kind), netnstest.New(t)
	pod.Do(t, func() error {
		return os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0o644)
	})
	s := spec(pod)
	if _, err := n.attacher.Attach(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if _, err := n.attacher.Check(t.Context(), s); err != nil {
		t.Error(err)
	}
}

func TestPairDetach_PresentOrAbsent_BothEndsGone(t *testing.T) {
	everyKind(t, testDetachRemovesBothEndsAndIsHappyWhenNothingIsThere)
}

func testDetachRemovesBothEndsAndIsHappyWhenNothingIsThere(t *testing.T, kind pair.Devices) {
	n, pod := newNode(t, kind), netnstest.New(t)
	s := spec(pod)
	if _, err := n.attacher.Attach(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"first", "again"} {
		if err := n.attacher.Detach(t.Context(), s.ContainerID, s.IfName); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if got := append(n.Links(t), pod.Links(t)...); len(got) != 0 {
			t.Errorf("%s: %v are left", when, got)
		}
	}
	if _, err := n.attacher.Attach(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	pod.Close(t)
	if err := n.attacher.Detach(t.Context(), s.ContainerID, s.IfName); err != nil {
		t.Errorf("after the namespace: %v", err)
	}
	if got := n.Links(t); len(got) != 0 {
		t.Errorf("after the namespace: %v are left", got)
	}
}

func TestAttach_RemainsOfEarlierAttempt_Replaced(t *testing.T) {
	everyKind(t, testRemainsOfAnEarlierAttemptAreReplaced)
}

func testRemainsOfAnEarlierAttemptAreReplaced(t *testing.T, kind pair.Devices) {
	n, pod := newNode(t, kind), netnstest.New(t)
	s := spec(pod)
	first, err := n.attacher.Attach(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	s.Addrs = []netip.Prefix{netip.MustParsePrefix("10.10.1.8/24")}
	s.Gateways = s.Gateways[:1]
	second, err := n.attacher.Attach(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if second.HostIfindex == first.HostIfindex {
		t.Error("the old pair is still in place")
	}
	if diff := cmp.Diff([]string{"127.0.0.1/8 lo", "10.10.1.8/24 eth0", "::1/128 lo"}, addresses(t, pod)); diff != "" {
		t.Errorf("addresses in the pod (-want +got):\n%s", diff)
	}
}

func TestPairAttach_Failure_NothingLeft(t *testing.T) { everyKind(t, testAFailedAttachLeavesNothing) }

func testAFailedAttachLeavesNothing(t *testing.T, kind pair.Devices) {
	foreign := func(name string) func(*netnstest.Namespace, *ifdriver.Spec) error {
		return func(*netnstest.Namespace, *ifdriver.Spec) error {
			return addForeign(name)
		}
	}
	for _, tc := range []struct {
		name    string
		prepare func(*netnstest.Namespace, *ifdriver.Spec) error
		want    error
		left    []string
	}{
		{"the name is taken in the pod", foreign("eth0"), ifdriver.ErrExists, []string{"eth0", "foreign"}},
		{"the other name is taken in the pod", foreign("blue"), unix.EEXIST, []string{"blue", "foreign"}},
		{"the gateway cannot be", func(_ *netnstest.Namespace, s *ifdriver.Spec) error {
			s.Gateways = []netip.Addr{netip.MustParseAddr("224.0.0.1")}
			return nil
		}, unix.EINVAL, []string{}},
		{"the MTU cannot be", func(_ *netnstest.Namespace, s *ifdriver.Spec) error { s.MTU = 1 << 20; return nil }, unix.EINVAL, []string{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, pod := newNode(t, kind), netnstest.New(t)
			s := spec(pod)
			s.AltName = "blue"
			pod.Do(t, func() error { return tc.prepare(pod, &s) })
			if _, err := n.attacher.Attach(t.Context(), s); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if got := n.Links(t); len(got) != 0 {
				t.Errorf("%v are left on the node", got)
			}
			if diff := cmp.Diff(tc.left, pod.Links(t)); diff != "" {
				t.Errorf("devices in the pod (-want +got):\n%s", diff)
			}
		})
	}
}

// addForeign makes a device that Alioth has nothing to do with.
func addForeign(name string) error {
	return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, TxQLen: -1}, PeerName: "foreign"})
}

func TestPair_NodeNamespace_Refused(t *testing.T) { everyKind(t, testTheNodesOwnNamespaceIsNoPod) }

func testTheNodesOwnNamespaceIsNoPod(t *testing.T, kind pair.Devices) {
	n := newNode(t, kind)
	if _, err := n.attacher.Attach(t.Context(), spec(n.Namespace)); err == nil || !strings.Contains(err.Error(), "node's own") {
		t.Errorf("got %v", err)
	}
	gone := netnstest.New(t)
	gone.Close(t)
	if _, err := n.attacher.Attach(t.Context(), spec(gone)); !errors.Is(err, netns.ErrGone) {
		t.Errorf("got %v, want ErrGone", err)
	}
	if got := n.Links(t); len(got) != 0 {
		t.Errorf("%v are left", got)
	}
}

func TestAttach_SeveralPods_RunInParallel(t *testing.T) {
	everyKind(t, testPodsAreAttachedAtTheSameTime)
}

func testPodsAreAttachedAtTheSameTime(t *testing.T, kind pair.Devices) {
	const pods = 20
	n := newNode(t, kind)
	specs := make([]ifdriver.Spec, pods)
	for i := range specs {
		specs[i] = spec(netnstest.New(t), fmt.Sprintf("10.10.1.%d/24", i+2))
		specs[i].ContainerID = fmt.Sprintf("container%d", i)
	}
	forAll := func(do func(ifdriver.Spec) error) {
		t.Helper()
		errs := make([]error, pods)
		var wg sync.WaitGroup
		for i, s := range specs {
			wg.Go(func() { errs[i] = do(s) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	}
	forAll(func(s ifdriver.Spec) error { _, err := n.attacher.Attach(t.Context(), s); return err })
	forAll(func(s ifdriver.Spec) error { _, err := n.attacher.Check(t.Context(), s); return err })
	if got := n.Links(t); len(got) != pods {
		t.Errorf("%d host ends, want %d", len(got), pods)
	}
	forAll(func(s ifdriver.Spec) error { return n.attacher.Detach(t.Context(), s.ContainerID, s.IfName) })
	if got := n.Links(t); len(got) != 0 {
		t.Errorf("%v are left", got)
	}
}

func BenchmarkAttach(b *testing.B) {
	for _, kind := range []pair.Devices{veth.Devices, netkit.Devices} {
		b.Run(string(kind.Kind), func(b *testing.B) {
			need(b, kind)
			n, pod := newNode(b, kind), netnstest.New(b)
			s := spec(pod)
			for b.Loop() {
				if _, err := n.attacher.Attach(b.Context(), s); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := n.attacher.Detach(b.Context(), s.ContainerID, s.IfName); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
