// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostlink_test

import (
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/cni/drivers/child/childtest"
	"github.com/alioth-net/alioth/cnid/forward/hostlink"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/internal/testrows"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// port is the UDP port of VXLAN links in these tests.
const port = 14789

// node is a namespace that plays a node's, with a loop that keeps its links.
type node struct {
	*netnstest.Namespace
	name  string
	port  uint16
	store *store.Store
	loop  *hostlink.Loop

	mu       sync.Mutex
	records  []journal.Record
	unread   bool
	failures []multinet.LinkFailure
	// addresses are those that the others have to be told.
	addresses []multinet.DeviceAddrs
	// made counts the passes that made links.
	made int
}

// newNode returns a node without devices.
func newNode(t testing.TB, name string) *node {
	t.Helper()
	n := &node{Namespace: netnstest.New(t), name: name, port: port}
	n.Do(t, func() error { return childtest.AddAddrs("lo") })
	var err error
	if n.store, err = store.New(); err != nil {
		t.Fatal(err)
	}
	n.start(t)
	return n
}

// start begins a loop, as a daemon does that starts.
func (n *node) start(t testing.TB) {
	t.Helper()
	var kernel *hostlink.Kernel
	n.Do(t, func() (err error) {
		kernel, err = hostlink.Open()
		return err
	})
	t.Cleanup(kernel.Close)
	n.loop = hostlink.New(kernel, hostlink.Config{
		Node: n.name, Store: n.store, Journal: n, Reporter: n,
		Synced: func() (bool, <-chan struct{}) { return !n.unread, nil }, Port: n.port, Devices: []string{"eth1"}, Every: 1 << 40,
		Made: func() { n.made++ },
		Log:  slog.New(slog.DiscardHandler),
	})
}

// Records implements journal.Reader.
func (n *node) Records() []journal.Record { return n.records }

// LinksFailed implements hostlink.Reporter.
func (n *node) LinksFailed(list []multinet.LinkFailure) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failures = list
}

// LinksAddressed implements hostlink.Reporter.
func (n *node) LinksAddressed(list []multinet.DeviceAddrs) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addresses = list
}

// pair returns two nodes with eth0, which has the node's address, on one wire.
func pair(t testing.TB, addrs ...string) (a, b *node) {
	t.Helper()
	if len(addrs) == 0 {
		addrs = []string{"192.0.2.1", "192.0.2.2"}
	}
	a, b = newNode(t, "a"), newNode(t, "b")
	childtest.Wire(t, a.Namespace, "eth0", b.Namespace, "eth0")
	for i, n := range []*node{a, b} {
		bits := "/24"
		if netip.MustParseAddr(addrs[i]).Is6() {
			bits = "/64"
		}
		n.Do(t, func() error { return childtest.AddAddrs("eth0", addrs[i]+bits) })
		n.knows(t, testrows.Node("a", addrs[0]), testrows.Node("b", addrs[1]))
	}
	return a, b
}

func (n *node) update(t testing.TB, do func(tx store.Tx) error) {
	t.Helper()
	if err := n.store.Update(do); err != nil {
		t.Fatal(err)
	}
}

// knows puts Nodes into a node's store.
func (n *node) knows(t testing.TB, rows ...store.Node) {
	t.Helper()
	n.update(t, func(tx store.Tx) error {
		var errs []error
		for i := range rows {
			errs = append(errs, store.PutNode(tx, &rows[i]))
		}
		return errors.Join(errs...)
	})
}

func vxlan(vni uint32, id string) multinet.HostLink {
	return hostLink(multinet.LinkID{Device: "eth0", Type: multinet.VXLAN, VNI: vni}, id)
}

func vlan(vid uint32, id string) multinet.HostLink {
	return hostLink(multinet.LinkID{Device: "eth0", Type: multinet.VLAN, VNI: vid}, id)
}

func hostLink(id multinet.LinkID, networkID string) multinet.HostLink {
	name := v1alpha1.HostLinkName(id.Type, id.VNI, id.Device)
	return multinet.HostLink{Meta: testrows.Meta(name), Name: name, LinkID: id, NetworkID: networkID}
}

// wants makes exactly these the HostLink objects that a node knows.
func (n *node) wants(t testing.TB, rows ...multinet.HostLink) {
	t.Helper()
	n.update(t, func(tx store.Tx) error {
		for _, row := range slices.Collect(multinet.HostLinks(tx)) {
			multinet.DeleteHostLink(tx, row.Name, row.UID)
		}
		var errs []error
		for i := range rows {
			errs = append(errs, multinet.PutHostLink(tx, &rows[i]))
		}
		return errors.Join(errs...)
	})
}

// pass makes a pass that must succeed.
func (n *node) pass(t testing.TB) {
	t.Helper()
	if err := n.loop.Pass(); err != nil {
		t.Fatal(err)
	}
}

func (n *node) failed() []multinet.LinkFailure {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failures
}

// hears puts what another node reports about its addresses into a node's store.
func (n *node) hears(t testing.TB, of *node) {
	t.Helper()
	of.mu.Lock()
	defer of.mu.Unlock()
	n.update(t, func(tx store.Tx) error {
		return multinet.PutLinkReport(tx, &multinet.LinkReport{Meta: testrows.Meta(of.name), Name: of.name, Addresses: of.addresses})
	})
}

// links returns the names of the devices beside eth0 and lo, in order.
func (n *node) links(t testing.TB) []string {
	t.Helper()
	names := slices.DeleteFunc(n.Links(t), func(name string) bool { return name == "eth0" })
	slices.Sort(names)
	return names
}

func (n *node) link(t testing.TB, name string) netlink.Link {
	t.Helper()
	return n.Link(t, name)
}

// attach gives a new pod on a node an interface on a link.
func attachPod(t testing.TB, n *node, devices ifdriver.Type, parent, addr string) *netnstest.Namespace {
	t.Helper()
	pod := netnstest.New(t)
	var driver ifdriver.Driver
	n.Do(t, func() (err error) {
		driver, err = devices.Open(ifdriver.Node{Dir: t.TempDir()})
		return err
	})
	t.Cleanup(driver.Close)
	s := childtest.Spec(pod, addr)
	s.Parent, s.OnLink, s.Gateways = parent, true, nil
	if _, err := driver.Attach(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return pod
}

// tablesOf returns the names of the tables of nf_tables on a node.
func tablesOf(t testing.TB, n *node) string {
	t.Helper()
	var names []string
	n.Do(t, func() error {
		tables, err := (&nftables.Conn{}).ListTables()
		for _, table := range tables {
			names = append(names, table.Name)
		}
		return err
	})
	return strings.Join(names, " ")
}
