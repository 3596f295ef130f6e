// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

// open returns the network of a new namespace.
func open(t testing.TB) (*kernel.Kernel, *netnstest.Namespace) {
	t.Helper()
	n := netnstest.New(t)
	var k *kernel.Kernel
	n.Do(t, func() (err error) {
		k, err = kernel.Open()
		return err
	})
	t.Cleanup(k.Close)
	return k, n
}

// do executes steps. The test is skipped at a kind of device that the kernel lacks.
func do(t testing.TB, k *kernel.Kernel, steps ...plan.Step) {
	t.Helper()
	for _, step := range steps {
		err := k.Do(t.Context(), step)
		if create, ok := step.(plan.Create); ok && errors.Is(err, unix.EOPNOTSUPP) {
			t.Skipf("this kernel has no devices of type %s", create.Interface.Type)
		}
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func show(t testing.TB, k *kernel.Kernel) *document.State {
	t.Helper()
	state, err := k.Show(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// find returns an interface, and fails the test for an unknown name.
func find(t testing.TB, k *kernel.Kernel, name string) document.Interface {
	t.Helper()
	for _, i := range show(t, k).Interfaces {
		if i.Name == name {
			return i
		}
	}
	t.Fatalf("there is no interface %s", name)
	return document.Interface{}
}

func names(state *document.State) (list []string) {
	for _, i := range state.Interfaces {
		list = append(list, i.Name)
	}
	return list
}

func want[T any](t testing.TB, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("got other than wanted (-want +got):\n%s", diff)
	}
}

// pair makes a pair, a and b.
func pair() plan.Create { return pairOf("a", "b") }

func pairOf(a, b string) plan.Create {
	return plan.Create{Interface: document.Interface{Name: a, Type: document.VethPair, Veth: &document.Veth{Peer: b}}}
}

func create(i document.Interface) plan.Create { return plan.Create{Interface: i} }

func TestVeth_CreationSettings_AllShown(t *testing.T) {
	k, _ := open(t)
	made := pair()
	made.Interface.MTU, made.Interface.MACAddress, made.Interface.Description = new(1400), "02:00:00:00:00:AB", new("to the lab")
	do(t, k, made)
	got := find(t, k, "a")
	if got.MinMTU == nil || got.MaxMTU == nil || *got.MinMTU >= *got.MaxMTU {
		t.Errorf("limits of the MTU are %v and %v", got.MinMTU, got.MaxMTU)
	}
	got.MinMTU, got.MaxMTU = nil, nil
	got.IPv6 = &document.IP{Enabled: got.IPv6.Enabled, DHCP: got.IPv6.DHCP, Addresses: got.IPv6.Addresses} // the kernel has a default
	want(t, got, document.Interface{
		Name: "a", Type: document.VethPair, State: document.Down, MTU: new(1400), MACAddress: "02:00:00:00:00:AB", Description: new("to the lab"),
		Controller: new(""), AcceptAllMACAddresses: new(false), Veth: &document.Veth{Peer: "b"},
		IPv4: &document.IP{Enabled: new(false), Forwarding: new(false), DHCP: new(false), Addresses: []document.Address{}},
		IPv6: &document.IP{Enabled: new(true), DHCP: new(false), Addresses: []document.Address{}},
	})
	state := show(t, k)
	want(t, names(state), []string{"a", "b", "lo"})
	want(t, state.Interfaces[2].Type, document.Loopback)
	want(t, state.Interfaces[1].Veth, &document.Veth{Peer: "a"})
	for range 2 {
		do(t, k, plan.Delete{Name: "a"})
		want(t, names(show(t, k)), []string{"lo"})
	}
}

func TestVeth_PeerInOtherNamespace_NoPeerShown(t *testing.T) {
	k, n := open(t)
	other := netnstest.New(t)
	n.Do(t, func() error { return pairTo("a", "b", other.Path) })
	want(t, find(t, k, "a").Veth, &document.Veth{})
}

func TestInterface_SettingsChange_Applied(t *testing.T) {
	k, _ := open(t)
	changed := document.Interface{
		Name: "a", Type: document.VethPair, MTU: new(9000), MACAddress: "02:00:00:00:00:01", Description: new("new"), AcceptAllMACAddresses: new(true),
	}
	do(t, k, pair(), plan.SetUp{Name: "a"}, plan.Change{Interface: changed})
	got := find(t, k, "a")
	for _, c := range []struct{ got, want any }{
		{*got.MTU, 9000}, {got.MACAddress, "02:00:00:00:00:01"}, {*got.Description, "new"}, {*got.AcceptAllMACAddresses, true}, {got.State, document.Up},
	} {
		want(t, c.got, c.want)
	}
	do(
		t,
		k,
		plan.Change{Interface: document.Interface{Name: "a", Type: document.VethPair, Description: new(""), AcceptAllMACAddresses: new(false)}},
		plan.SetDown{Name: "a"},
	)
	got = find(t, k, "a")
	for _, c := range []struct{ got, want any }{
		{*got.MTU, 9000}, {*got.Description, ""}, {*got.AcceptAllMACAddresses, false}, {got.State, document.Down},
	} {
		want(t, c.got, c.want)
	}
}

func TestCreate_InterfaceExists_SettingsApplied(t *testing.T) {
	k, _ := open(t)
	again := pair()
	again.Interface.MTU = new(1300)
	do(t, k, pair(), again)
	want(t, *find(t, k, "a").MTU, 1300)
	if err := k.Do(t.Context(), pairOf("a", "c")); !errors.Is(err, unix.EEXIST) {
		t.Errorf("a pair with another end: %v, want EEXIST", err)
	}
	bridge := create(document.Interface{Name: "a", Type: document.LinuxBridge})
	if err := k.Do(t.Context(), bridge); !errors.Is(err, unix.EEXIST) {
		t.Errorf("a bridge with the name of a pair: %v, want EEXIST", err)
	}
}

func TestKernelStep_ObjectMissing_ErrorNamesIt(t *testing.T) {
	k, _ := open(t)
	for _, step := range []plan.Step{
		plan.SetUp{Name: "none"},
		plan.SetFamily{Name: "none"},
		plan.SetForwarding{Name: "none", Family: document.FamilyIPv4},
		plan.Enslave{Port: "none", Controller: "lo"},
		plan.Change{Interface: document.Interface{Name: "none", MTU: new(1400)}},
		plan.AddAddress{Name: "none", Address: document.Address{IP: "192.0.2.1", PrefixLength: 24}},
		plan.AddRoute{Route: document.Route{Destination: "198.51.100.0/24", Interface: "none"}},
		create(document.Interface{Name: "x", Type: document.MACVLANType, MACVLAN: &document.MACVLAN{Base: "none", Mode: "bridge"}}),
	} {
		err := k.Do(t.Context(), step)
		if err == nil || err.Error()[:len(step.String())] != step.String() || !slices.Contains([]string{"none: no such interface"}, lastPart(err)) {
			t.Errorf("%s: %v", step, err)
		}
	}
	if err := k.Do(t.Context(), plan.SetResolver{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("the resolver: %v, want ErrUnsupported", err)
	}
	if err := k.Do(t.Context(), create(document.Interface{Name: "x", Type: document.Ethernet})); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("hardware: %v, want ErrUnsupported", err)
	}
	if err := k.Do(t.Context(), plan.SetVFs{Name: "lo", SRIOV: document.SRIOV{TotalVFs: new(1)}}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("virtual functions of lo: %v, want ErrUnsupported", err)
	}
}

func TestKernel_ThreadInOtherNamespace_StaysInOwn(t *testing.T) {
	k, _ := open(t)
	do(t, k, pairOf("unheard", "of"), plan.SetFamily{Name: "unheard"})
	other, _ := open(t)
	want(t, names(show(t, other)), []string{"lo"})
	want(t, *find(t, k, "unheard").IPv6.Enabled, false)
	want(t, *find(t, k, "of").IPv6.Enabled, true)
	do(t, k, plan.SetFamily{Name: "unheard", Enabled: true})
	want(t, *find(t, k, "unheard").IPv6.Enabled, true)
}

func BenchmarkShow500(b *testing.B) {
	k, _ := open(b)
	for n := range 250 {
		do(b, k, pairOf(fmt.Sprintf("a%d", n), fmt.Sprintf("b%d", n)))
	}
	for b.Loop() {
		want(b, len(show(b, k).Interfaces), 501)
	}
}
