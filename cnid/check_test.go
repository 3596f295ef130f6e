// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/store"
)

// checked is a daemon without its loops, which would repair what the test breaks, and a
// pod on its node that is attached and programmed.
type checked struct {
	*machine
	*daemon
	pod    *labPod
	result string
}

func newChecked(t *testing.T) *checked {
	t.Helper()
	c := &checked{machine: newMachine(t, "node1")}
	testnet.Veth(t, c, "eth0", []string{"192.0.2.1/24"}, testnet.New(t), "eth0", nil)
	s := script{
		VPCs:    []store.VPC{vpcRow("blue", 20, "10.10.0.0/16")},
		Subnets: []store.Subnet{subnetRow("blue1", "blue", "10.10.1.0/24", "10.10.1.1")},
		Nodes:   []store.Node{nodeRow("node1", "192.0.2.1")},
	}
	l := &lab{nodes: [2]*machine{c.machine}, pods: map[string]*labPod{}}
	l.addPod(t, &s, 0, "p1", "blue", "blue1", false, "10.10.1.10/24")
	c.pod = l.pods["p1"]
	c.daemon = newIdleDaemon(t, c.machine)
	if err := c.store.Update(s.fill); err != nil {
		t.Fatal(err)
	}
	testnet.In(t, c, func() error { return c.attach(t) })
	return c
}

// attach attaches the pod while the daemon makes passes. It is called in the
// machine's network namespace.
func (c *checked) attach(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answer := make(chan cniapi.Response, 1)
	go func() {
		defer cancel()
		answer <- c.server.Do(ctx, c.request("ADD", ""))
	}()
	c.loop.Run(ctx)
	resp := <-answer
	if resp.Error != nil {
		return resp.Error
	}
	c.result = string(resp.Result)
	return nil
}

func (c *checked) request(command, previous string) cniapi.Request {
	return cniapi.Request{
		Command: command, ContainerID: "sandbox-p1", Netns: c.pod.Path(), IfName: "eth0",
		Args:   "K8S_POD_NAMESPACE=ns;K8S_POD_NAME=p1;K8S_POD_UID=p1",
		Config: []byte(`{"cniVersion":"1.1.0","name":"alioth","type":"alioth"` + previous + `}`),
	}
}

func (c *checked) check(t *testing.T) *types.Error {
	t.Helper()
	return c.server.Do(t.Context(), c.request("CHECK", `,"prevResult":`+c.result)).Error
}

// TestCHECK_BrokenAttachment_NamesFault breaks one thing after the other of an attachment
// on the real kernel.
func TestCHECK_BrokenAttachment_NamesFault(t *testing.T) {
	host := func(do func(*checked, netlink.Link) error) func(*testing.T, *checked) {
		return func(t *testing.T, c *checked) {
			testnet.In(t, c, func() error {
				link, err := netlink.LinkByName(c.record(t).HostIfName)
				if err != nil {
					return err
				}
				return do(c, link)
			})
		}
	}
	inPod := func(do func(netlink.Link) error) func(*testing.T, *checked) {
		return func(t *testing.T, c *checked) {
			testnet.In(t, c.pod, func() error {
				link, err := netlink.LinkByName("eth0")
				if err != nil {
					return err
				}
				return do(link)
			})
		}
	}
	row := func(name string) func(*testing.T, *checked) {
		return func(t *testing.T, c *checked) {
			m, err := ebpf.LoadPinnedMap(filepath.Join(c.cfg.BPFDir, name), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if err := emptied(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	address := func(change func(*store.Address)) func(*testing.T, *checked) {
		return func(t *testing.T, c *checked) {
			err := c.store.Update(func(tx store.Tx) error {
				held := *store.AddressByIP(tx, "blue", c.pod.ip(ipfamily.IPv4))
				store.DeleteAddress(tx, held.Name, held.UID)
				if change == nil {
					return nil
				}
				change(&held)
				return store.PutAddress(tx, &held)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 9}
	for _, tc := range []struct {
		name string
		do   func(*testing.T, *checked)
		want string
	}{
		{"nothing", func(*testing.T, *checked) {}, ""},
		{"host end: down", host(func(_ *checked, l netlink.Link) error { return netlink.LinkSetDown(l) }), "is down"},
		{"host end: MTU", host(func(_ *checked, l netlink.Link) error { return netlink.LinkSetMTU(l, 1300) }), "MTU 1300"},
		{"host end: MAC", host(func(_ *checked, l netlink.Link) error { return netlink.LinkSetHardwareAddr(l, mac) }), "MAC " + mac.String()},
		{"host end: gone", host(func(_ *checked, l netlink.Link) error { return netlink.LinkDel(l) }), "interface is gone"},
		{"pod: MAC", inPod(func(l netlink.Link) error { return netlink.LinkSetHardwareAddr(l, mac) }), "eth0 has MAC " + mac.String()},
		{"pod: MTU", inPod(func(l netlink.Link) error { return netlink.LinkSetMTU(l, 1300) }), "eth0 has MTU 1300"},
		{"pod: address", inPod(func(l netlink.Link) error {
			addr, err := netlink.ParseAddr("10.10.1.10/24")
			return errors.Join(err, netlink.AddrDel(l, addr))
		}), "address 10.10.1.10/24 is gone"},
		{"pod: route", inPod(func(l netlink.Link) error {
			return netlink.RouteDel(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}})
		}), "default route by 10.10.1.1 is gone"},
		{"BPF: the programs", host(func(_ *checked, l netlink.Link) error {
			qdisc, err := clsactOf(l.Attrs().Name)
			if err != nil {
				return err
			}
			return netlink.QdiscDel(qdisc)
		}), "program alioth_from_pod is not on device"},
		{"BPF: the interface's row", row("alioth_interfaces"), "map alioth_interfaces lacks"},
		{"BPF: the address's row", row("alioth_addresses"), "map alioth_addresses lacks"},
		{"Address object: gone", address(nil), "the Address object of 10.10.1.10 in VPC blue is missing"},
		{"Address object: another pod's", address(func(a *store.Address) { a.Holder.UID, a.Holder.Name = "p2", "p2" }), "belongs to pod ns/p2 now"},
		{"Address object: MAC", address(func(a *store.Address) { a.MAC = mac.String() }), "has MAC " + mac.String()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newChecked(t)
			tc.do(t, c)
			err := c.check(t)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Msg, tc.want)) {
				t.Errorf("CHECK: %v, want %q", err, tc.want)
			}
		})
	}
}

func (c *checked) record(t *testing.T) journal.Record {
	t.Helper()
	rec, err := c.journal.Get(journal.Key{ContainerID: "sandbox-p1", IfName: "eth0"})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// emptied deletes every row of a map.
func emptied(m *ebpf.Map) error {
	key, err := m.NextKeyBytes(nil)
	for ; key != nil && err == nil; key, err = m.NextKeyBytes(nil) {
		if err := m.Delete(key); err != nil {
			return fmt.Errorf("delete a row of %s: %w", m, err)
		}
	}
	return err
}

// clsactOf returns the qdisc that holds the programs of a device, or nil.
func clsactOf(device string) (netlink.Qdisc, error) {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return nil, err
	}
	qdiscs, err := netlink.QdiscList(link)
	if err != nil {
		return nil, err
	}
	for _, q := range qdiscs {
		if q.Type() == "clsact" {
			return q, nil
		}
	}
	return nil, nil
}
