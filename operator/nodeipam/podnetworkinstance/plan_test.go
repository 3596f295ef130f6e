// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package podnetworkinstance

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
)

const early, today = "acn.azure.com", "multitenancy.acn.azure.com"

// instance is shop/<name> with a number of addresses of PodNetwork pn to reserve, and its reserved
// addresses.
func instance(name string, age, size int, reserved ...string) *nodeipam.Instance {
	row := &nodeipam.Instance{
		Meta: operatortest.Meta("uid-"+name, age), Ref: nodeipam.Ref{Group: today, Namespace: "shop", Name: name},
		Interfaces: []nodeipam.Interface{{PodNetwork: "pn", Reserve: size}},
	}
	if len(reserved) > 0 {
		row.Reserved = []nodeipam.Reserved{{PodNetwork: "pn", VPC: "v", IPs: operatortest.Addrs(reserved...)}}
	}
	return row
}

func changed[R any](row *R, change func(*R)) *R {
	change(row)
	return row
}

// podNetwork returns a PodNetwork in subnet net1. Its free addresses are .2 to .6, and .1 is the
// gateway.
func podNetwork(name string, change func(*nodeipam.PodNetwork)) *nodeipam.PodNetwork {
	row := &nodeipam.PodNetwork{
		Meta: operatortest.Meta("uid-"+name, 0), Ref: nodeipam.Ref{Group: today, Name: name}, VPC: "v", Subnet: "net1", MaxReserved: 64, Ready: true,
	}
	if change != nil {
		change(row)
	}
	return row
}

// world has PodNetwork pn for the tenant of namespace shop, unless the rows have it.
func world(rows ...any) []any {
	all := []any{
		&store.Namespace{Meta: operatortest.Meta("uid-shop", 0), Name: "shop", Tenant: "blue"},
		operatortest.VPC("v", 1, []string{"blue"}, "10.0.0.0/16"), operatortest.Subnet("sub", "v", "net1", 0, "10.0.1.0/29"), podNetwork("pn", nil),
	}
	return append(all, rows...)
}

// pod is one of an instance, with an address as eth1 if that is not "".
func pod(instance, name, ip string) []any {
	row := operatortest.Pod("blue", "shop", name, "", "")
	row.Labels = map[string]string{multitenancyv1alpha1.PodNetworkInstanceLabel: instance}
	if ip == "" {
		return []any{row}
	}
	address := operatortest.Address("v", "sub", ip, row)
	address.Attachment, address.External = "eth1", true
	return []any{row, address}
}

// short returns a decision as text: state, reason and addresses by PodNetwork.
func short(d decision) string {
	var texts []string
	for _, reserved := range d.reserved {
		texts = append(texts, fmt.Sprintf("%s:%v", reserved.PodNetwork, reserved.IPs))
	}
	return fmt.Sprintf("%s %s %s", d.state, d.Reason, strings.Join(texts, " "))
}

// decideOne decides about a row whose status in the API has its reservations.
func decideOne(t *testing.T, row *nodeipam.Instance, rows ...any) (d decision) {
	t.Helper()
	operatortest.New(t, append(world(rows...), row)...).
		View(func(tx store.ReadTx) { d = decide(tx, row, facts{written: row.Reserved, settled: true, keeps: true}) })
	return d
}

// TestInstance_Reserving_ReadyOnlyAfterStatusWritten: it is Ready only after its status in the API has all of
// its addresses, whenever an operator ends in between.
func TestInstance_Reserving_ReadyOnlyAfterStatusWritten(t *testing.T) {
	row := instance("pni", 1, 2)
	s := operatortest.New(t, append(world(), row)...)
	step := func(written []nodeipam.Reserved, settled bool, want string, assume bool) {
		t.Helper()
		if err := s.Update(func(tx store.Tx) error {
			held := nodeipam.GetInstance(tx, row.Ref)
			d := decide(tx, held, facts{written: written, settled: settled, keeps: true})
			if got := short(d); got != want || d.assume != assume {
				t.Errorf("got %s, assumed %v, want %s, %v", got, d.assume, want, assume)
			}
			if !d.assume {
				return nil
			}
			return nodeipam.AssumeReserved(tx, held, d.reserved)
		}); err != nil {
			t.Fatal(err)
		}
	}
	reserved := []nodeipam.Reserved{{PodNetwork: "pn", VPC: "v", IPs: operatortest.Addrs("10.0.1.2", "10.0.1.3")}}
	step(nil, false, " Reserving ", false) // nodes may hold the addresses
	step(nil, true, " Reserving pn:[10.0.1.2 10.0.1.3]", true)
	step(nil, true, " Reserving pn:[10.0.1.2 10.0.1.3]", false) // the write has failed
	step(reserved, true, "Ready Ready pn:[10.0.1.2 10.0.1.3]", false)
}

// TestInstance_Releasing_NotReadyFirst: while it is Ready, its pods may get any of its addresses.
func TestInstance_Releasing_NotReadyFirst(t *testing.T) {
	ready := func(row *nodeipam.Instance) *nodeipam.Instance {
		return changed(row, func(i *nodeipam.Instance) { i.Ready = true })
	}
	for name, c := range map[string]struct {
		row         *nodeipam.Instance
		rows        []any
		first, then string
	}{
		"fewer than before": {instance("pni", 1, 1, "10.0.1.4", "10.0.1.2"), nil, " Reserving pn:[10.0.1.4 10.0.1.2]", "Ready Ready pn:[10.0.1.4]"},
		"all, as the VPC is that of others": {
			instance("pni", 1, 1, "10.0.1.2"),
			[]any{operatortest.VPC("v", 1, nil, "10.0.0.0/16")},
			"CreateReservationSetError TenantNotAllowed pn:[10.0.1.2]", "CreateReservationSetError TenantNotAllowed ",
		},
		"what another pod holds": {instance("pni", 1, 1, "10.0.1.4"), pod("other", "p", "10.0.1.4"), " Reserving pn:[10.0.1.4]", " Reserving "},
		"nothing":                {instance("pni", 1, 1, "10.0.1.4"), nil, "Ready Ready pn:[10.0.1.4]", "Ready Ready pn:[10.0.1.4]"},
	} {
		was := *c.row
		if got := short(decideOne(t, ready(&was), c.rows...)); got != c.first {
			t.Errorf("%s: first got %s, want %s", name, got, c.first)
		}
		if got := short(decideOne(t, c.row, c.rows...)); got != c.then {
			t.Errorf("%s: then got %s, want %s", name, got, c.then)
		}
	}
}

// TestInstance_AssumedReservation_Written: a reservation that is not needed any more is written too,
// because a write with a lost reply may have reached the API.
func TestInstance_AssumedReservation_Written(t *testing.T) {
	for name, row := range map[string]*nodeipam.Instance{
		"by a deleted one":      changed(instance("pni", 1, 1, "10.0.1.4"), func(i *nodeipam.Instance) { i.Deleting = true }),
		"by one that is wrong":  changed(instance("pni", 1, 1, "10.0.1.4"), func(i *nodeipam.Instance) { i.Invalid = "it can't be" }),
		"by one that has fewer": instance("pni", 1, 0, "10.0.1.4"),
	} {
		operatortest.New(t, append(world(), row)...).View(func(tx store.ReadTx) {
			if d := decide(tx, row, facts{settled: true, keeps: true}); short(d) != " Reserving pn:[10.0.1.4]" || d.unused {
				t.Errorf("%s: got %+v", name, d)
			}
		})
	}
}

func TestDecide_Instance_AddressesReserved(t *testing.T) {
	const ready = "Ready Ready "
	others := changed(instance("pni", 1, 1), func(i *nodeipam.Instance) {
		i.Interfaces = append(
			i.Interfaces,
			nodeipam.Interface{PodNetwork: "other", Reserve: 2},
			nodeipam.Interface{PodNetwork: "pn", Reserve: 1, IP: netip.MustParseAddr("10.0.1.3")},
		)
	})
	six := []any{
		operatortest.Subnet("sub6", "v", "net6", 0, "fd00::/64"), podNetwork("six", func(n *nodeipam.PodNetwork) { n.Subnet = "net6" }),
		operatortest.Subnet("sub46", "v", "net46", 0, "10.0.2.0/24", "fd00:0:0:1::/64"), podNetwork("both", func(n *nodeipam.PodNetwork) { n.Subnet = "net46" }),
	}
	in := func(name string) func(*nodeipam.Instance) {
		return func(i *nodeipam.Instance) { i.Interfaces[0].PodNetwork = name }
	}
	for name, c := range map[string]struct {
		row  *nodeipam.Instance
		rows []any
		want string
	}{
		"none":                          {instance("pni", 1, 0), nil, ready},
		"an address":                    {changed(instance("pni", 1, 1), func(i *nodeipam.Instance) { i.Interfaces[0].IP = netip.MustParseAddr("10.0.1.5") }), nil, " Reserving pn:[10.0.1.5]"},
		"beside held ones":              {instance("pni", 1, 2), pod("other", "p", "10.0.1.2"), " Reserving pn:[10.0.1.3 10.0.1.4]"},
		"beside reserved ones":          {instance("pni", 1, 2), []any{instance("old", 0, 1, "10.0.1.3")}, " Reserving pn:[10.0.1.2 10.0.1.4]"},
		"in several PodNetworks":        {others, []any{podNetwork("other", nil)}, " Reserving pn:[10.0.1.3 10.0.1.2] other:[10.0.1.4 10.0.1.5]"},
		"of IPv6":                       {changed(instance("pni", 1, 1), in("six")), six, " Reserving six:[fd00::2]"},
		"of IPv4 in a dual subnet":      {changed(instance("pni", 1, 1), in("both")), six, " Reserving both:[10.0.2.2]"},
		"all":                           {instance("pni", 1, 2, "10.0.1.4", "10.0.1.2"), nil, ready + "pn:[10.0.1.4 10.0.1.2]"},
		"all, with pods":                {instance("pni", 1, 2, "10.0.1.4", "10.0.1.2"), pod("pni", "p", "10.0.1.4"), ready + "pn:[10.0.1.4 10.0.1.2]"},
		"all, with a pod that is gone":  {instance("pni", 1, 1, "10.0.1.4"), pod("pni", "p", "10.0.1.4")[1:], ready + "pn:[10.0.1.4]"},
		"fewer than before":             {instance("pni", 1, 1, "10.0.1.4", "10.0.1.2"), nil, ready + "pn:[10.0.1.4]"},
		"fewer than before, with pods":  {instance("pni", 1, 1, "10.0.1.4", "10.0.1.2"), pod("pni", "p", "10.0.1.2"), ready + "pn:[10.0.1.2]"},
		"none, with a pod":              {instance("pni", 1, 0, "10.0.1.4", "10.0.1.2"), pod("pni", "p", "10.0.1.2"), ready + "pn:[10.0.1.2]"},
		"what another pod holds":        {instance("pni", 1, 1, "10.0.1.4"), pod("other", "p", "10.0.1.4"), " Reserving "},
		"what an older one has":         {instance("pni", 1, 1, "10.0.1.4"), []any{instance("old", 0, 1, "10.0.1.4")}, " Reserving "},
		"what a younger one has":        {instance("pni", 1, 1, "10.0.1.4"), []any{instance("new", 2, 1, "10.0.1.4")}, ready + "pn:[10.0.1.4]"},
		"what is outside of the subnet": {instance("pni", 1, 1, "10.0.9.4"), nil, " Reserving "},
		"what is elsewhere, with a pod": {instance("pni", 1, 1, "10.0.9.4"), pod("pni", "p", "10.0.9.4"), " Reserving pn:[10.0.9.4 10.0.1.2]"},
		"the gateway":                   {instance("pni", 1, 1, "10.0.1.1"), nil, " Reserving "},
	} {
		t.Run(name, func(t *testing.T) {
			d := decideOne(t, c.row, c.rows...)
			if got := short(d); got != c.want {
				t.Errorf("got %s, want %s (%s)", got, c.want, d.Message)
			}
		})
	}
}

func TestDecide_Unreservable_ReasonGiven(t *testing.T) {
	const (
		failed = "CreateReservationSetError "
		absent = "PodNetworkNotReady PodNetworkNotReady "
		full   = "InsufficientIPAddressesOnSubnet SubnetExhausted "
	)
	fixed := func(ip string) *nodeipam.Instance {
		return changed(instance("pni", 1, 1), func(i *nodeipam.Instance) { i.Interfaces[0].IP = netip.MustParseAddr(ip) })
	}
	limited := podNetwork("pn", func(n *nodeipam.PodNetwork) { n.MaxReserved = 2 })
	two := changed(instance("pni", 1, 1), func(i *nodeipam.Instance) {
		i.Interfaces = append(i.Interfaces, nodeipam.Interface{PodNetwork: "nowhere"})
	})
	for name, c := range map[string]struct {
		row           *nodeipam.Instance
		rows          []any
		want, message string
	}{
		"more than there are":               {instance("pni", 1, 6), nil, full, "fewer than 6 free addresses"},
		"more than the limit":               {instance("pni", 1, 3), []any{limited}, failed + "ReservationLimit ", "allows 2 reserved addresses"},
		"more than the limit with others":   {instance("pni", 1, 2), []any{limited, instance("old", 0, 1, "10.0.1.3")}, failed + "ReservationLimit ", "maxReservedIPs"},
		"more than a limit that was higher": {instance("pni", 1, 3, "10.0.1.2", "10.0.1.3", "10.0.1.4"), []any{limited}, "Ready Ready pn:[10.0.1.2 10.0.1.3 10.0.1.4]", ""},
		"half of what it needs":             {two, nil, absent, `"nowhere"`},
		"a PodNetwork that is not Ready":    {instance("pni", 1, 1, "10.0.1.2"), []any{podNetwork("pn", func(n *nodeipam.PodNetwork) { n.Ready = false })}, absent + "pn:[10.0.1.2]", "kubectl describe podnetworks." + today + " pn"},
		"a PodNetwork on its way out":       {instance("pni", 1, 1), []any{podNetwork("pn", func(n *nodeipam.PodNetwork) { n.Deleting = true })}, absent, ""},
		"the VPC of others":                 {instance("pni", 1, 1, "10.0.1.2"), []any{operatortest.VPC("v", 1, []string{"red"}, "10.0.0.0/16")}, failed + "TenantNotAllowed ", `tenant "blue"`},
		"the VPC of others, with a pod":     {instance("pni", 1, 2, "10.0.1.2", "10.0.1.3"), append(pod("pni", "p", "10.0.1.3"), operatortest.VPC("v", 1, nil, "10.0.0.0/16")), failed + "TenantNotAllowed pn:[10.0.1.3]", ""},
		"the gateway":                       {fixed("10.0.1.1"), nil, failed + "IPReserved ", "ipConstraint"},
		"an address elsewhere":              {fixed("10.0.9.1"), nil, failed + "IPOutsideSubnet ", "10.0.9.1"},
		"a held address":                    {fixed("10.0.1.3"), pod("other", "p", "10.0.1.3"), failed + "IPInUse ", "shop/p"},
		"a reserved address":                {fixed("10.0.1.3"), []any{instance("old", 0, 1, "10.0.1.3")}, failed + "IPReserved ", "shop/old"},
		"nothing":                           {changed(instance("pni", 1, 1), func(i *nodeipam.Instance) { i.Interfaces = nil }), nil, failed + "Invalid ", "names no PodNetwork"},
		"an invalid value":                  {changed(instance("pni", 1, 1), func(i *nodeipam.Instance) { i.Invalid = "it can't be" }), nil, failed + "Invalid ", "it can't be"},
		"as the younger one of the name": {
			instance("pni", 1, 1), []any{changed(instance("pni", 0, 1), func(i *nodeipam.Instance) { i.Group = early })}, failed + "OlderServes ", early,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := decideOne(t, c.row, c.rows...)
			if got := short(d); got != c.want || !strings.Contains(d.Message, c.message) || d.assume {
				t.Errorf("got %s, want %s with %q; assumed: %v (%s)", got, c.want, c.message, d.assume, d.Message)
			}
		})
	}
}

// TestInstance_PodsHoldAddresses_NotDeleted: also while they hold addresses that it has not
// reserved.
func TestInstance_PodsHoldAddresses_NotDeleted(t *testing.T) {
	ending := func(reserved ...string) *nodeipam.Instance {
		return changed(instance("pni", 1, 1, reserved...), func(i *nodeipam.Instance) { i.Deleting = true })
	}
	older := changed(instance("pni", 0, 1), func(i *nodeipam.Instance) { i.Group = early })
	infra := pod("pni", "p", "10.0.1.3")
	infra[1].(*store.Address).Attachment = v1alpha1.PodAttachment
	for name, c := range map[string]struct {
		row  *nodeipam.Instance
		rows []any
		by   string
	}{
		"nobody":                             {ending("10.0.1.2"), nil, ""},
		"a pod with a reserved address":      {ending("10.0.1.2", "10.0.1.3"), pod("pni", "p", "10.0.1.2"), "shop/p"},
		"a pod with another address":         {ending("10.0.1.2"), pod("pni", "p", "10.0.1.4"), "shop/p"},
		"a pod without an address":           {ending("10.0.1.2"), pod("pni", "p", ""), ""},
		"a pod with its first interface":     {ending("10.0.1.2"), infra, ""},
		"a pod that is gone":                 {ending("10.0.1.2"), pod("pni", "p", "10.0.1.2")[1:], "shop/p"},
		"a pod of another instance":          {ending("10.0.1.2"), pod("other", "p", "10.0.1.4"), ""},
		"a pod of the older one of the name": {ending(), append(pod("pni", "p", "10.0.1.4"), older), ""},
		"several pods":                       {ending("10.0.1.2"), append(append(append(pod("pni", "a", "10.0.1.2"), pod("pni", "b", "10.0.1.3")...), pod("pni", "c", "10.0.1.4")...), pod("pni", "d", "10.0.1.5")...), "4 pod(s): shop/a, shop/b, shop/c, and others"},
	} {
		t.Run(name, func(t *testing.T) {
			d := decideOne(t, c.row, c.rows...)
			if d.unused != (c.by == "") || !strings.Contains(d.Message, c.by) || d.state != "" || d.Reason != v1alpha1.DeletingReason {
				t.Errorf("got %+v, want it to be used by %q", d, c.by)
			}
		})
	}
}

// TestInstance_APIDropsReservations_NothingReserved: a successor would give the address away. Instances that
// need no reservation are served.
func TestInstance_APIDropsReservations_NothingReserved(t *testing.T) {
	for size, want := range map[int]string{1: "CreateReservationSetError ForeignDefinition ", 0: "Ready Ready "} {
		row := instance("pni", 1, size)
		operatortest.New(t, append(world(), row)...).View(func(tx store.ReadTx) {
			if d := decide(tx, row, facts{settled: true}); short(d) != want || d.assume {
				t.Errorf("%d addresses: got %s (%s), want %s", size, short(d), d.Message, want)
			}
		})
	}
}
