// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodenic

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/nic"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/test/vm/hardware"
)

// The tests of this file delegate virtual functions of a network adapter. test/vm selects
// them by the words "VirtualFunction" in their names.

// machine is the node that the machine itself is: the kernel gives hardware back to no other
// network namespace. Its virtual functions are the devices nic0, nic1 and so on.
type machine struct {
	*node
	adapter hardware.Adapter
	vfs     []hardware.Function
	macs    []net.HardwareAddr
}

func newMachine(t *testing.T, functions int) *machine {
	t.Helper()
	m := &machine{adapter: hardware.Find(t), node: &node{netnstest.Current(t), notesOf(t)}}
	m.adapter.SetUp(t)
	m.makeFunctions(t, functions)
	return m
}

// makeFunctions makes the devices of a machine that has none.
func (m *machine) makeFunctions(t *testing.T, functions int) {
	t.Helper()
	m.vfs, m.macs = m.adapter.MakeFunctions(t, functions), nil
	m.adapter.AwaitCarrier(t) // the node has its last address then
	for i, vf := range m.vfs {
		onDevice(t, m.Namespace, vf.Device(t), func(l netlink.Link) error {
			m.macs = append(m.macs, l.Attrs().HardwareAddr)
			return errors.Join(netlink.LinkSetName(l, fmt.Sprintf("nic%d", i)), netlink.LinkSetMTU(l, mtu))
		})
	}
}

// take gives the node a device of a name. It is gone after the test.
func (m *machine) take(t *testing.T, name string) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	m.Do(t, func() error { return netlink.LinkAdd(&netlink.Dummy{LinkAttrs: attrs}) })
	t.Cleanup(func() { onDevice(t, m.Namespace, name, netlink.LinkDel) })
}

// end ends pods without a DEL, and waits until the kernel has given the functions back.
func (m *machine) end(t *testing.T, pods ...*netnstest.Namespace) {
	t.Helper()
	for _, pod := range pods {
		pod.Close(t)
	}
	for _, vf := range m.vfs {
		vf.Device(t)
	}
}

// mustCheck fails the test if a pod has not its devices as Attach makes them.
func (m *machine) mustCheck(t *testing.T, a Attachment, names ...string) {
	t.Helper()
	if err := m.check(t, a, names...); err != nil {
		t.Errorf("check: %v", err)
	}
}

func TestDelegatedVF_AttachDetach_MovedAndReturned(t *testing.T) {
	m := newMachine(t, 2)
	for range 2 { // they are usable again
		isInThePodAndComesBack(t, m.node, m.macs[0], m.macs[1])
	}
}

func TestDelegatedVF_PodEnds_NameRestored(t *testing.T) {
	m := newMachine(t, 1)
	m.take(t, "eth1")
	before := m.states(t)
	for _, name := range []string{"lan1", "eth1", m.adapter.Name} { // the node has the others
		one := first(m.macs[0])
		one.Name = name
		for way, goOn := range map[string]func(*testing.T, Attachment){
			"DEL": func(t *testing.T, a Attachment) { t.Helper(); m.mustDetach(t, a) },
			"GC":  func(t *testing.T, _ Attachment) { t.Helper(); m.collect(t) },
			"ADD again": func(t *testing.T, a Attachment) {
				t.Helper()
				a.NetnsPath = netnstest.New(t).Path
				m.mustAttach(t, a, one)
				m.mustCheck(t, a, name)
				m.mustDetach(t, a)
			},
			"ADD of another pod": func(t *testing.T, a Attachment) {
				t.Helper()
				other := of(netnstest.New(t), "other")
				m.mustAttach(t, other, one)
				m.mustDetach(t, a) // late
				m.mustCheck(t, other, name)
				m.mustDetach(t, other)
			},
		} {
			t.Run(name+", then "+way, func(t *testing.T) {
				pod := netnstest.New(t)
				a := of(pod, "c")
				m.mustAttach(t, a, one)
				m.end(t, pod)
				if now := m.vfs[0].Device(t); (now == name) != (name == "lan1") || now == "nic0" {
					t.Errorf("the kernel gives back %s", now)
				}
				goOn(t, a)
				m.asBefore(t, before)
			})
		}
	}
}

// TestDelegatedVF_NamesSwapped_FormerNamesRestored has pods that give their devices the
// names of other devices on the node.
func TestDelegatedVF_NamesSwapped_FormerNamesRestored(t *testing.T) {
	m := newMachine(t, 2)
	before := m.states(t)
	one, two := first(m.macs[0]), second(m.macs[1])
	one.Name, two.Name = "nic1", "nic0"
	t.Run("of one pod", func(t *testing.T) {
		pod := netnstest.New(t)
		a := of(pod, "c")
		m.mustAttach(t, a, one, two)
		m.end(t, pod)
		m.mustDetach(t, a)
		m.asBefore(t, before)
	})
	t.Run("of two pods", func(t *testing.T) {
		pods := []*netnstest.Namespace{netnstest.New(t), netnstest.New(t)}
		a, b := of(pods[0], "a"), of(pods[1], "b")
		m.mustAttach(t, a, one)
		m.mustAttach(t, b, two)
		m.end(t, pods...)
		m.mustDetach(t, a)
		m.mustAttach(t, of(netnstest.New(t), "d"), two) // in the place of DEL
		m.mustDetach(t, b)
		m.mustDetach(t, Attachment{ContainerID: "d", IfName: b.IfName})
		m.asBefore(t, before)
	})
	for _, name := range []string{"nic1", "eth1", "nic0"} {
		t.Run("of a pod whose device is "+name+", and one that lives longer", func(t *testing.T) {
			pods := []*netnstest.Namespace{netnstest.New(t), netnstest.New(t)}
			a, b := of(pods[0], "a"), of(pods[1], "b")
			one.Name = name
			m.mustAttach(t, a, one)
			if name != "nic1" { // it is its second name
				onDevice(t, pods[0], name, func(l netlink.Link) error { return netlink.LinkAddAltName(l, "nic1") })
			}
			m.mustAttach(t, b, two)
			pods[0].Close(t)
			m.vfs[0].Device(t)
			m.mustDetach(t, b)
			m.collect(t)
			m.asBefore(t, before)
		})
	}
}

func TestDelegatedVF_PodChangesFunction_Undone(t *testing.T) {
	m := newMachine(t, 1)
	m.take(t, "best") // as the pod calls the device, too
	before := m.states(t)
	changes := append(whatAPodChanges(), func(l netlink.Link) error { return netlink.LinkSetHardwareAddr(l, macOf(9)) })
	for name, end := range map[string]func(*testing.T, *netnstest.Namespace){
		"DEL":                     func(*testing.T, *netnstest.Namespace) {},
		"the end of the pod, DEL": func(t *testing.T, pod *netnstest.Namespace) { t.Helper(); m.end(t, pod) },
	} {
		t.Run(name, func(t *testing.T) {
			pod := netnstest.New(t)
			a := of(pod, "c")
			m.mustAttach(t, a, first(m.macs[0]))
			onDevice(t, pod, "eth1", changes...)
			end(t, pod)
			m.mustDetach(t, a)
			m.asBefore(t, before)
		})
	}
}

func TestDelegatedVF_CrashAtEachStep_Undone(t *testing.T) {
	m := newMachine(t, 2)
	before := m.states(t)
	for i, stage := range slices.Repeat(stages, 2) {
		ends := i >= len(stages)
		t.Run(fmt.Sprintf("%s (end of the pod: %t)", stage, ends), func(t *testing.T) {
			pod := netnstest.New(t)
			m.until(t, stage, of(pod, "c"), first(m.macs[0]), second(m.macs[1]))
			if ends {
				m.end(t, pod)
			}
			m.mustDetach(t, of(pod, "c"))
			m.asBefore(t, before)
		})
	}
}

func TestDelegatedVF_KilledAtEachMoment_NodeRestored(t *testing.T) {
	m := newMachine(t, 2)
	isAsBeforeAfterKills(t, m.node, first(m.macs[0]), second(m.macs[1]))
}

func TestDelegatedVF_FunctionRemoved_ReportedMissing(t *testing.T) {
	mustDetach := func(t *testing.T, m *machine, a Attachment) { t.Helper(); m.mustDetach(t, a) }
	for name, c := range map[string]struct {
		ends    bool // the pod, before its function does
		another bool // function gets the place of the first
		then    func(*testing.T, *machine, Attachment)
	}{
		"DEL":                         {then: mustDetach},
		"DEL after the pod has ended": {ends: true, then: mustDetach},
		"DEL, and another function":   {another: true, then: mustDetach},
		"GC":                          {then: func(t *testing.T, m *machine, _ Attachment) { t.Helper(); m.collect(t) }},
		"ADD":                         {then: func(*testing.T, *machine, Attachment) {}},
	} {
		t.Run(name, func(t *testing.T) {
			m, pod := newMachine(t, 1), netnstest.New(t)
			a, one := of(pod, "c"), first(m.macs[0])
			m.mustAttach(t, a, one)
			if c.ends {
				m.end(t, pod)
			}
			m.adapter.RemoveFunctions(t)
			if c.another {
				m.makeFunctions(t, 1)
			}
			before := m.states(t)
			if err := m.check(t, a, one.Name); !errors.Is(err, ifdriver.ErrMismatch) {
				t.Errorf("check: %v", err)
			}
			c.then(t, m, a)
			if err := m.attach(t, of(netnstest.New(t), "d"), one); !errors.Is(err, nic.ErrMissing) || !Passes(err) {
				t.Errorf("another pod: %v", err)
			}
			m.asBefore(t, before)
			m.mustDetach(t, a)
		})
	}
}

// TestDelegatedVF_PodsShareAddresses_OwnNetworksReached has two networks, which
// are VLANs, each with a function that is its gateway.
func TestDelegatedVF_PodsShareAddresses_OwnNetworksReached(t *testing.T) {
	m := newMachine(t, 4)
	for i, vf := range m.vfs {
		if err := netlink.LinkSetVfVlan(m.adapter.Link(t), vf.Index, 7+i%2); err != nil {
			t.Fatal(err)
		}
	}
	pods := []*netnstest.Namespace{netnstest.New(t), netnstest.New(t)}
	for i, pod := range pods {
		network, name := netnstest.New(t), fmt.Sprintf("network %d", i)
		m.mustAttach(t, of(network, name), Interface{Name: "far", MAC: m.macs[2+i]})
		gateway(t, network)
		m.mustAttach(t, of(pod, name+"'s pod"), first(m.macs[i]))
		for _, to := range []string{"192.0.2.99", "2001:db8:9::9"} {
			if got := converse(t, pod, network, to, name); got != name {
				t.Errorf("the pod of %s talks with %s", name, got)
			}
		}
	}
	m.mustDetach(t, of(pods[0], "network 0's pod"))
	if got := pods[1].Links(t); !slices.Equal(got, []string{"eth1"}) {
		t.Errorf("the release of one pod's function left the other pod %v", got)
	}
	m.mustCheck(t, of(pods[1], "network 1's pod"), "eth1")
}
