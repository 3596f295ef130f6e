// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/annotations"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
)

const group = "multitenancy.acn.azure.com"

// asked returns a pod of instance pni on node-1.
func asked(change func(*store.Pod)) *store.Pod {
	pod := operatortest.Pod("blue", "shop", "web", "", "")
	pod.Labels = map[string]string{multitenancyv1alpha1.PodNetworkInstanceLabel: "pni"}
	if change != nil {
		change(pod)
	}
	return pod
}

// told gives a pod its allocation status: an address of its node, and two by the API.
func assign(pod *store.Pod) {
	attachment := func(name, vpc, ip string) netif.Interface {
		return netif.Interface{
			Name: name, Kind: netif.KindExternal, VPC: vpc, Subnet: "sub", MAC: "00:00:00:00:00:01",
			Addresses: []netip.Prefix{netip.MustParsePrefix(ip)}, Gateways: []netip.Addr{netip.MustParsePrefix(ip).Masked().Addr().Next()},
		}
	}
	text, err := annotations.FormatAttachments([]netif.Interface{
		attachment("eth0", "infra", "10.9.0.2/24"), attachment("eth1", "v", "10.0.1.2/24"), attachment("eth2", "v", "10.0.1.3/24"),
	})
	if err != nil {
		panic(err)
	}
	pod.Attachments, pod.NetworkReady, pod.Reason = text, true, v1alpha1.AttachedReason
}

// addresses returns the Addresses of the allocation status. change may change each of them.
func addresses(pod *store.Pod, change func(*store.Address)) []any {
	var rows []any
	for _, one := range []struct{ name, vpc, ip string }{{"eth0", "infra", "10.9.0.2"}, {"eth2", "v", "10.0.1.3"}, {"eth1", "v", "10.0.1.2"}} {
		row := operatortest.Address(one.vpc, "sub", one.ip, pod)
		row.Attachment, row.External, row.MAC = one.name, true, "00:00:00:00:00:0"+one.ip[len(one.ip)-1:]
		if change != nil {
			change(row)
		}
		rows = append(rows, row)
	}
	return rows
}

func decided(t *testing.T, pod *store.Pod, rows ...any) (c *content) {
	t.Helper()
	network := &nodeipam.PodNetwork{
		Meta: operatortest.Meta("uid-pn", 0), Ref: nodeipam.Ref{Group: group, Name: "pn"}, VPC: "v", SubnetGUID: "guid", SubnetResourceID: "/subnets/net1",
	}
	all := []any{
		&store.Node{Meta: operatortest.Meta("uid-node", 0), Name: "node-1", NodeIPAM: true}, network, pod,
		operatortest.VPC("v", 1, []string{"blue"}, "10.0.0.0/16"), operatortest.Subnet("sub", "v", "net1", 0, "10.0.1.0/24"),
		&nodeipam.Instance{
			Meta: operatortest.Meta("uid-pni", 0), Ref: nodeipam.Ref{Group: group, Namespace: "shop", Name: "pni"}, DefaultDeny: true,
			Interfaces: []nodeipam.Interface{{PodNetwork: "pn"}, {PodNetwork: "other"}},
		},
	}
	operatortest.New(t, append(all, rows...)...).View(func(tx store.ReadTx) { c = decide(tx, pod) })
	return c
}

func TestDecide_PodAddresses_Reported(t *testing.T) {
	pod := asked(assign)
	got := decided(t, pod, addresses(pod, nil)...)
	info := multitenancyv1alpha1.InterfaceInfo{
		NCID: "uid-" + v1alpha1.AddressName("v", netip.MustParseAddr("10.0.1.2")), PrimaryIP: "10.0.1.2/32", MacAddress: "00:00:00:00:00:02",
		GatewayIP: "10.0.1.1", SubnetAddressSpace: "10.0.1.0/24", DeviceType: multitenancyv1alpha1.DeviceTypeVnetNIC,
		NetworkID: "v", SubnetGUID: "guid", SubnetResourceID: "/subnets/net1",
	}
	second := info
	second.NCID, second.PrimaryIP, second.MacAddress = "uid-"+v1alpha1.AddressName("v", netip.MustParseAddr("10.0.1.3")), "10.0.1.3/32", "00:00:00:00:00:03"
	second.SubnetGUID, second.SubnetResourceID = "", "" // its PodNetwork is gone
	want := &content{
		name: "web", uid: pod.UID, node: "node-1", state: multitenancyv1alpha1.ConfigReady, defaultDeny: true,
		choice:     multitenancyv1alpha1.PodNetworkChoice{PodNetworkInstance: "pni", PodNetwork: "pn"},
		interfaces: []multitenancyv1alpha1.InterfaceInfo{info, second},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(content{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecide_InterfaceUnclaimed_NotReady(t *testing.T) {
	refused := func(reason string) func(*store.Pod) {
		return func(p *store.Pod) { p.Reason = reason }
	}
	of := func(name string, change func(*store.Address)) func(*store.Address) {
		return func(row *store.Address) {
			if row.Attachment == name {
				change(row)
			}
		}
	}
	unconfirmed := func(row *store.Address) { row.UID = "" }
	for name, c := range map[string]struct {
		pod    func(*store.Pod)
		change func(*store.Address)
		want   multitenancyv1alpha1.PodNetworkConfigState
	}{
		"all is claimed":                      {assign, nil, "Ready"},
		"the last one is being claimed":       {assign, of("eth2", unconfirmed), "Pending"},
		"the first one is being claimed":      {assign, of("eth0", unconfirmed), "Pending"},
		"another pod holds one":               {assign, of("eth1", func(row *store.Address) { row.Holder.UID = "former" }), "Pending"},
		"one is on another node":              {assign, of("eth1", func(row *store.Address) { row.Node = "node-2" }), "Pending"},
		"one is Alioth's own":                 {assign, of("eth1", func(row *store.Address) { row.External = false }), "Pending"},
		"one is of another interface":         {assign, of("eth1", func(row *store.Address) { row.Attachment = "eth7" }), "Pending"},
		"claimed, and not told":               {nil, nil, "Pending"},
		"no instance":                         {refused(v1alpha1.PodNetworkInstanceNotFoundReason), nil, "PNINotFound"},
		"an instance that is not Ready":       {refused(v1alpha1.PodNetworkInstanceNotReadyReason), nil, "PNINotReady"},
		"a PodNetwork that is not Ready":      {refused(v1alpha1.PodNetworkNotReadyReason), nil, "PNINotReady"},
		"no device":                           {refused(v1alpha1.NodeCapacityReason), nil, "NodeCapacityExceeded"},
		"no address":                          {refused(v1alpha1.SubnetExhaustedReason), nil, "IPsExhausted"},
		"a tenant that the VPC doesn't allow": {refused(v1alpha1.TenantNotAllowedReason), nil, "InternalError"},
		"deleting":                            {func(p *store.Pod) { assign(p); p.Deleting = true }, nil, "Deleting"},
		"ended":                               {func(p *store.Pod) { assign(p); p.Terminal = true }, nil, "Deleting"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := asked(c.pod)
			got := decided(t, pod, addresses(pod, c.change)...)
			shows := c.want == multitenancyv1alpha1.ConfigReady || c.want == multitenancyv1alpha1.ConfigDeleting
			if got == nil || got.state != c.want || (len(got.interfaces) > 0) != shows {
				t.Errorf("got %+v, want %s", got, c.want)
			}
		})
	}
}

func TestDecide_Pods_OnlyPodsOfAPIHaveConfigs(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*store.Pod)
		want   bool
	}{
		"with an instance":               {nil, true},
		"with any label":                 {func(p *store.Pod) { p.Labels = map[string]string{multitenancyv1alpha1.PodNetworkLabel: ""} }, true},
		"without a label":                {func(p *store.Pod) { p.Labels = nil }, false},
		"on another node":                {func(p *store.Pod) { p.Node = "node-2" }, false},
		"that only says that it is":      {func(p *store.Pod) { assign(p); p.Node = "node-2" }, false},
		"bound nowhere":                  {func(p *store.Pod) { p.Node = "" }, false},
		"that asks for Alioth's network": {func(p *store.Pod) { p.Network = "net" }, false},
	} {
		if got := decided(t, asked(c.change)); (got != nil) != c.want {
			t.Errorf("%s: got %+v, want %v", name, got, c.want)
		}
	}
	away := asked(func(p *store.Pod) { p.Node = "node-2" })
	rows := addresses(away, func(row *store.Address) { row.Node = away.Node })
	if decided(t, away, rows...) == nil {
		t.Error("a pod with addresses of the API has no config on a node that changed")
	}
	if decide(nil, nil) != nil {
		t.Error("a pod that is gone has a config")
	}
}
