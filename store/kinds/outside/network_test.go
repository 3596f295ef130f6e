// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package outside

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/annotations"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/values"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// comparable compares rows with their addresses.
var comparable = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

func addrRange(first, last string) store.AddrRange {
	return store.AddrRange{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)}
}

// outsideKind returns the kind of networks of a group and name.
func outsideKind(t *testing.T, group, name string) Network {
	t.Helper()
	for _, kind := range Networks {
		if kind.Group == group && kind.Name == name {
			return kind
		}
	}
	t.Fatalf("no kind %s of %s", name, group)
	return Network{}
}

func TestConvertNetwork_EitherGroup_Read(t *testing.T) {
	spec := danmv1.NetworkSpec{
		NetworkID: "external", NetworkType: "MacVLAN", AllowedTenants: []string{"a"},
		Options: danmv1.NetworkOptions{
			HostDevice: "ens4", VLAN: 300, ContainerPrefix: "ext", RTTables: 300, MTU: 1400,
			CIDR: "10.100.1.7/24", AllocationPool: &danmv1.AllocationPool{Start: "10.100.1.100", End: "10.100.1.200", LastIP: "10.100.1.150/24"},
			Net6: "2001:db8::/64", AllocationPoolV6: &danmv1.AllocationPoolV6{CIDR: "2001:db8::1:0/112"},
			Routes:  map[string]danmv1.Gateway{"10.20.0.0/24": "10.100.1.1", "10.10.0.0/24": "10.100.1.2"},
			Routes6: map[string]danmv1.Gateway{"2001:db8:1::/64": "2001:db8::1"},
		},
	}
	want := multinet.Network{
		Meta: store.Meta{UID: "u", ResourceVersion: "3"}, NetworkID: "external", Type: "macvlan", AllowedNamespaces: []string{"a"},
		HostDevice: "ens4", VLAN: 300, Prefix: "ext", Table: 300, Settings: netif.Config{MTU: 1400},
		V4: multinet.Range{Prefix: netip.MustParsePrefix("10.100.1.0/24"), Pool: addrRange("10.100.1.100", "10.100.1.200")},
		V6: multinet.Range{Prefix: netip.MustParsePrefix("2001:db8::/64"), Pool: addrRange("2001:db8::1:1", "2001:db8::1:fffe")},
		Routes: []multinet.Route{
			{Dst: netip.MustParsePrefix("10.10.0.0/24"), Gateway: netip.MustParseAddr("10.100.1.2")},
			{Dst: netip.MustParsePrefix("10.20.0.0/24"), Gateway: netip.MustParseAddr("10.100.1.1")},
			{Dst: netip.MustParsePrefix("2001:db8:1::/64"), Gateway: netip.MustParseAddr("2001:db8::1")},
		},
	}
	want.Ref = multinet.Ref{Group: "danm.k8s.io", Kind: "ClusterNetwork", Name: "net"}
	got := outsideKind(t, "danm.k8s.io", "ClusterNetwork").Convert(&danmv1.ClusterNetwork{ObjectMeta: objectMeta("net", 3), Spec: spec})
	if diff := cmp.Diff(&want, got, comparable); diff != "" {
		t.Errorf("danm.k8s.io (-want +got):\n%s", diff)
	}
	want.Group = "danm.io"
	got = outsideKind(t, "danm.io", "ClusterNetwork").Convert(&danmiov1.ClusterNetwork{ObjectMeta: objectMeta("net", 3), Spec: spec})
	if diff := cmp.Diff(&want, got, comparable); diff != "" {
		t.Errorf("danm.io (-want +got):\n%s", diff)
	}
}

// options reads a network of a kind with these options.
func options(kind, networkType string, o danmv1.NetworkOptions, tenants ...string) *multinet.Network {
	spec := danmv1.NetworkSpec{NetworkID: "net", NetworkType: networkType, Options: o, AllowedTenants: tenants}
	meta := objectMeta("net", 1)
	return outsideNetwork(&meta, multinet.Ref{Kind: kind, Name: "net"}, &spec, &danmv1.NetworkStatus{})
}

// TestConvertNetwork_Ranges_Read has the cases of section 7 of the DANM reference by number. Case 107 is
// re-expressed: net6 without a pool means EUI-64. Case 108 is not taken over: it is a limit
// of DANM's bitmaps.
func TestConvertNetwork_Ranges_Read(t *testing.T) {
	c26 := func(start, end string) danmv1.NetworkOptions {
		return danmv1.NetworkOptions{CIDR: "192.168.1.64/26", AllocationPool: &danmv1.AllocationPool{Start: start, End: end}}
	}
	pool6 := func(net6, cidr, start, end string) danmv1.NetworkOptions {
		return danmv1.NetworkOptions{Net6: net6, AllocationPoolV6: &danmv1.AllocationPoolV6{CIDR: cidr, Start: start, End: end}}
	}
	for _, tc := range []struct {
		name    string
		options danmv1.NetworkOptions
		v4, v6  store.AddrRange
		eui64   bool
		invalid string
	}{
		{name: "no range: L2", options: danmv1.NetworkOptions{}},
		{name: "93: the whole range is the pool", options: danmv1.NetworkOptions{CIDR: "192.168.1.64/26"}, v4: addrRange("192.168.1.65", "192.168.1.126")},
		{name: "a /30", options: danmv1.NetworkOptions{CIDR: "192.168.1.0/30"}, v4: addrRange("192.168.1.1", "192.168.1.2")},
		{name: "a /31", options: danmv1.NetworkOptions{CIDR: "192.168.1.0/31"}, invalid: "not above its start"},
		{name: "a /32", options: danmv1.NetworkOptions{CIDR: "255.255.255.255/32"}, invalid: "not above its start"},
		{name: "a start alone", options: c26("192.168.1.70", ""), v4: addrRange("192.168.1.70", "192.168.1.126")},
		{name: "78: an unreadable range", options: danmv1.NetworkOptions{CIDR: "192.168.1.0/a4"}, invalid: `cidr "192.168.1.0/a4"`},
		{name: "82: an unreadable IPv6 range", options: danmv1.NetworkOptions{Net6: "2g00:8a00::/64"}, invalid: "net6"},
		{name: "90: a pool without a range", options: danmv1.NetworkOptions{AllocationPool: &danmv1.AllocationPool{Start: "192.168.1.70"}}, invalid: "set cidr"},
		{name: "91: a start below the range", options: c26("192.168.1.63", ""), invalid: "allocation_pool.start"},
		{name: "91: an end above the range", options: c26("", "192.168.1.128"), invalid: "allocation_pool.end"},
		{name: "91: one address", options: c26("192.168.1.127", "192.168.1.127"), invalid: "not above its start"},
		{name: "106: IPv6 as cidr", options: danmv1.NetworkOptions{CIDR: "2a00::/64"}, invalid: "cidr"},
		{name: "106: IPv4 as net6", options: danmv1.NetworkOptions{Net6: "10.0.0.0/24"}, invalid: "net6"},
		{name: "106: IPv4 in IPv6 as net6", options: danmv1.NetworkOptions{Net6: "::ffff:10.0.0.0/120"}, invalid: "net6"},
		{name: "106: IPv4 as the CIDR of an IPv6 pool", options: pool6("2a00::/64", "10.0.0.0/24", "", ""), invalid: "allocation_pool_v6.cidr"},
		{name: "106: an unreadable CIDR of a pool", options: pool6("2a00::/64", "2a00::/129", "", ""), invalid: "allocation_pool_v6.cidr"},
		{name: "106: an IPv6 pool without net6", options: pool6("", "2a00::/112", "", ""), invalid: "set net6"},
		{name: "107: net6 without a pool", options: danmv1.NetworkOptions{Net6: "2a00::/64"}, eui64: true},
		{name: "107: net6 with an empty pool", options: pool6("2a00::/64", "", "", ""), eui64: true},
		{name: "net6 that has no room for EUI-64", options: danmv1.NetworkOptions{Net6: "2a00::/120"}},
		{name: "109: a pool larger than its range", options: pool6("2a00::/110", "2a00::/109", "", ""), invalid: "not inside net6"},
		{name: "a pool elsewhere", options: pool6("2a00::/64", "2a00:0:0:1::/112", "", ""), invalid: "not inside net6"},
		{name: "110: an unreadable start", options: pool6("2a00::/64", "", "hulu", ""), invalid: "allocation_pool_v6.start"},
		{name: "110: one IPv6 address", options: pool6("2a00::/64", "", "2a00::5", "2a00::5"), invalid: "not above its start"},
		{name: "an IPv6 pool by its ends", options: pool6("2a00::/64", "", "2a00::5", "2a00::9"), v6: addrRange("2a00::5", "2a00::9")},
		{name: "a zone", options: pool6("2a00::/64", "", "2a00::5%eth0", ""), invalid: "allocation_pool_v6.start"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			row := options("DanmNet", "", tc.options)
			if (row.Invalid == "") != (tc.invalid == "") || !strings.Contains(row.Invalid, tc.invalid) {
				t.Errorf("invalid: %q, want %q", row.Invalid, tc.invalid)
			}
			if row.V4.Pool != tc.v4 || row.V6.Pool != tc.v6 || row.V6.EUI64 != tc.eui64 {
				t.Errorf("pools %v and %v, EUI-64 %v", row.V4.Pool, row.V6.Pool, row.V6.EUI64)
			}
		})
	}
}

func TestConvertNetwork_Unusable_FaultNamed(t *testing.T) {
	type o = danmv1.NetworkOptions
	for _, tc := range []struct {
		name, kind, networkType string
		options                 o
		tenants                 []string
		invalid                 string
	}{
		{name: "77: routes without a range", options: o{Routes: map[string]danmv1.Gateway{"10.20.0.0/24": "10.0.0.1"}}, invalid: "set cidr"},
		{name: "80: one of two gateways is outside", options: o{CIDR: "10.20.1.0/24", Routes: map[string]danmv1.Gateway{"10.1.0.0/24": "10.20.1.1", "10.2.0.0/24": "10.20.0.1"}}, invalid: `gateway "10.20.0.1"`},
		{name: "81: IPv6 routes without a range", options: o{Routes6: map[string]danmv1.Gateway{"2a00::/64": "2a00::1"}}, invalid: "set net6"},
		{name: "83: an IPv6 gateway is outside", options: o{Net6: "2a00::/64", Routes6: map[string]danmv1.Gateway{"2b00::/64": "2b00::1"}}, invalid: "gateway"},
		{name: "a destination that is none", options: o{CIDR: "10.20.1.0/24", Routes: map[string]danmv1.Gateway{"hulu": "10.20.1.1"}}, invalid: `destination "hulu"`},
		{name: "a destination of the other family", options: o{CIDR: "10.20.1.0/24", Routes: map[string]danmv1.Gateway{"2a00::/64": "10.20.1.1"}}, invalid: "destination"},
		{name: "one destination in two forms", options: o{CIDR: "10.20.1.0/24", Routes: map[string]danmv1.Gateway{"10.1.0.0/24": "10.20.1.1", "10.1.0.5/24": "10.20.1.2"}}, invalid: "two gateways"},
		{name: "84: VLAN and VXLAN", options: o{VLAN: 50, VXLAN: 60}, invalid: "vlan and vxlan"},
		{name: "87: AllowedTenants of a DanmNet", tenants: []string{"a"}, invalid: "AllowedTenants"},
		{name: "87: AllowedTenants of a TenantNetwork", kind: "TenantNetwork", tenants: []string{"a"}, invalid: "AllowedTenants"},
		{name: "87: AllowedTenants of a ClusterNetwork", kind: "ClusterNetwork", tenants: []string{"a"}},
		{name: "88: sriov without a pool", networkType: "sriov", invalid: "device_pool"},
		{name: "88: sriov in capitals without a pool", networkType: "SRIOV", invalid: "device_pool"},
		{name: "88: sriov with a device", networkType: "sriov", options: o{HostDevice: "ens4"}, invalid: "device_pool"},
		{name: "88: ipvlan with both", options: o{HostDevice: "ens4", DevicePool: "a.b/c"}, invalid: "exclude each other"},
		{name: "sriov with a pool", networkType: "sriov", options: o{DevicePool: "a.b/c"}},
		{name: "sriov with a VLAN", networkType: "sriov", options: o{DevicePool: "a.b/c", VLAN: 5}},
		{name: "sriov with a VXLAN", networkType: "SRIOV", options: o{DevicePool: "a.b/c", VXLAN: 5}, invalid: "a network of type sriov has no vxlan"},
		{name: "a VLAN above the limit", options: o{VLAN: 4095}, invalid: "vlan 4095"},
		{name: "a negative VLAN", options: o{VLAN: -1}, invalid: "vlan -1"},
		{name: "a VXLAN above the limit", options: o{VXLAN: 1 << 24}, invalid: "vxlan"},
		{name: "a negative table", options: o{RTTables: -1}, invalid: "rt_tables"},
		{name: "table 300", options: o{RTTables: 300}},
		{name: "a negative MTU", options: o{MTU: -1}, invalid: "mtu"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kind := tc.kind
			if kind == "" {
				kind = "DanmNet"
			}
			row := options(kind, tc.networkType, tc.options, tc.tenants...)
			if (row.Invalid == "") != (tc.invalid == "") || !strings.Contains(row.Invalid, tc.invalid) {
				t.Errorf("invalid: %q, want %q", row.Invalid, tc.invalid)
			}
		})
	}
}

func TestNetworkFaults_ManyFaults_FitCondition(t *testing.T) {
	routes := map[string]danmv1.Gateway{}
	for i := range 100 {
		routes[strings.Repeat("ü", 1000+i)] = "none"
	}
	row := options("DanmNet", "", danmv1.NetworkOptions{CIDR: "10.20.0.0/24", Routes: routes})
	if len(row.Invalid) < values.LongestFaults/2 || len(row.Invalid) > values.LongestFaults || !strings.HasSuffix(row.Invalid, "...") {
		t.Errorf("%d bytes", len(row.Invalid))
	}
}

// configOf reads a TenantConfig.
func configOf(devices []danmv1.HostDevice, ids map[string]danmv1.NetworkID) *multinet.TenantConfig {
	meta := objectMeta("tenants", 1)
	return tenantConfig(&meta, "danm.io", config{devices, ids, &danmv1.TenantConfigStatus{}})
}

// TestConvertTenantConfig_Object_RowAndFaults has the cases 66 to 75. The limit of case 71 is 4094 for VLANs and
// 2^24-1 for VXLANs, instead of the 5000 of DANM's bitmaps. The limit of a NetworkID in case 74
// is 11 bytes, and 10 with a VNI. The network's own check finds the latter.
func TestConvertTenantConfig_Object_RowAndFaults(t *testing.T) {
	device := func(vniType, vnis string) []danmv1.HostDevice {
		return []danmv1.HostDevice{{Name: "ens4", VNIType: danmv1.VNIType(vniType), VNIRange: vnis}}
	}
	for _, tc := range []struct {
		name    string
		devices []danmv1.HostDevice
		ids     map[string]danmv1.NetworkID
		vnis    []multinet.VNIRange
		invalid string
	}{
		{name: "66: neither devices nor NetworkIDs", invalid: "neither"},
		{name: "67: no name", devices: []danmv1.HostDevice{{}}, invalid: "name"},
		{name: "a name that no claim can have", devices: []danmv1.HostDevice{{Name: strings.Repeat("a", 101)}}, invalid: "name"},
		{name: "68: a type without a range", devices: device("vlan", ""), invalid: "belong together"},
		{name: "68: a range without a type", devices: device("", "1-5"), invalid: "belong together"},
		{name: "69: an unknown type", devices: device("vxlan2", "1-5"), invalid: "use vlan or vxlan, or upgrade"},
		{name: "70: an unreadable range", devices: device("vlan", "700-71a0"), invalid: "vniRange"},
		{name: "71: a VLAN above the limit", devices: device("vlan", "900-4093,4095"), invalid: "to 4094"},
		{name: "71: VXLANs", devices: device("vxlan", "900-4999,5001"), vnis: []multinet.VNIRange{{First: 900, Last: 4999}, {First: 5001, Last: 5001}}},
		{name: "a VXLAN above the limit", devices: device("vxlan", "16777216"), invalid: "to 16777215"},
		{name: "number 0", devices: device("vlan", "0-5"), invalid: "vniRange"},
		{name: "a range that ends below its start", devices: device("vlan", "5-4"), invalid: "vniRange"},
		{name: "an empty part", devices: device("vlan", "5,,6"), invalid: "vniRange"},
		{name: "the guide's list, out of order and with overlaps", devices: device("vlan", "2601, 2000-2500,2650-2700,2400-2550"), vnis: []multinet.VNIRange{{First: 2000, Last: 2550}, {First: 2601, Last: 2601}, {First: 2650, Last: 2700}}},
		{name: "73: an empty NetworkID", ids: map[string]danmv1.NetworkID{"flannel": ""}, invalid: "without type or NetworkID"},
		{name: "73: an empty type", ids: map[string]danmv1.NetworkID{"": "asd"}, invalid: "without type or NetworkID"},
		{name: "74: a long NetworkID of a static type", ids: map[string]danmv1.NetworkID{"flannel": "flannel12345"}},
		{name: "74: a long NetworkID of a dynamic type", ids: map[string]danmv1.NetworkID{"sriov": "sriov1234567"}, invalid: "sriov"},
		{name: "74: of a dynamic type in capitals", ids: map[string]danmv1.NetworkID{"SRIOV": "sriov1234567"}, invalid: "SRIOV"},
		{name: "a path", ids: map[string]danmv1.NetworkID{"flannel": "../evil"}, invalid: "flannel"},
		{name: "one type twice", ids: map[string]danmv1.NetworkID{"flannel": "a", "Flannel": "b"}, invalid: "twice"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			row := configOf(tc.devices, tc.ids)
			if (row.Invalid == "") != (tc.invalid == "") || !strings.Contains(row.Invalid, tc.invalid) {
				t.Errorf("invalid: %q, want %q", row.Invalid, tc.invalid)
			}
			if tc.vnis != nil {
				if diff := cmp.Diff(tc.vnis, row.Devices[0].VNIs); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

func FuzzVNIRange(f *testing.F) {
	for _, text := range []string{"2000-2500,2601,2650-2700", "1", "5-4", ",", "1-", "-1", "4294967296", " 7 , 8-9"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		const limit = 4094
		ranges, ok := parseVNIRange(text, limit)
		if !ok {
			return
		}
		last := uint32(0)
		for _, r := range ranges {
			if r.First <= last || r.Last < r.First || r.Last > limit {
				t.Fatalf("%q is read as %v", text, ranges)
			}
			last = r.Last
		}
		if len(ranges) == 0 {
			t.Fatalf("%q is read as nothing", text)
		}
	})
}

// FuzzANetworkIsReadWhateverItHas checks that all parts of a row can be used: pools and gateways
// lie in their range.
func FuzzANetworkIsReadWhateverItHas(f *testing.F) {
	f.Add("10.0.0.0/24", "10.0.0.5", "10.0.0.9", "2a00::/64", "2a00::/112", "2a00::5", "", "10.1.0.0/24", "10.0.0.1")
	f.Add("0.0.0.0/0", "", "", "::/0", "::/0", "", "", "0.0.0.0/0", "0.0.0.0")
	f.Add("255.255.255.255/32", "", "", "ffff::/128", "ffff::/128", "", "", "", "")
	f.Fuzz(func(t *testing.T, cidr, start, end, net6, cidr6, start6, end6, dst, gateway string) {
		row := options("DanmNet", "", danmv1.NetworkOptions{
			CIDR: cidr, AllocationPool: &danmv1.AllocationPool{Start: start, End: end},
			Net6: net6, AllocationPoolV6: &danmv1.AllocationPoolV6{CIDR: cidr6, Start: start6, End: end6},
			Routes: map[string]danmv1.Gateway{dst: danmv1.Gateway(gateway)}, Routes6: map[string]danmv1.Gateway{dst: danmv1.Gateway(gateway)},
		})
		for _, r := range []multinet.Range{row.V4, row.V6} {
			if r.HasPool() && (!r.Prefix.Contains(r.Pool.First) || !r.Prefix.Contains(r.Pool.Last) || !r.Pool.First.Less(r.Pool.Last)) {
				t.Fatalf("range %+v", r)
			}
		}
		for _, route := range row.Routes {
			if !row.V4.Prefix.Contains(route.Gateway) && !row.V6.Prefix.Contains(route.Gateway) {
				t.Fatalf("route %+v", route)
			}
		}
	})
}

func TestHostVNIClaimName_Device_Encoded(t *testing.T) {
	for _, tc := range []struct{ device, want string }{
		{"ens4", "vlan-300.ens4"},
		{"0", "vlan-300.0"},
		{"Ens4", "vlan-300.0.456e7334"},
		{"bond0.5", "vlan-300.0.626f6e64302e35"},
		{"a.b/c", "vlan-300.0.612e622f63"},
		{"0.61", "vlan-300.0.302e3631"},
	} {
		if got := v1alpha1.HostVNIClaimName("vlan", 300, tc.device); got != tc.want {
			t.Errorf("device %s: %s, want %s", tc.device, got, tc.want)
		}
	}
}

func TestConvertNetwork_VirtualFunctionSettings_Read(t *testing.T) {
	rate := 5
	for _, tc := range []struct {
		name, kind, networkType, text string
		vlan                          int32
		want                          netif.VF
		invalid                       string
	}{
		{name: "none", kind: "DanmNet", networkType: "sriov"},
		{name: "harmless ones of a namespace", kind: "DanmNet", networkType: "sriov", text: `{"max_tx_rate":5,"trust":"off"}`, want: netif.VF{MaxTxRate: &rate, Trust: "off"}},
		{name: "an administrator trusts", kind: "ClusterNetwork", networkType: "SRIOV", text: `{"trust":"on","spoofchk":"off"}`, want: netif.VF{Trust: "on", SpoofCheck: "off"}},
		{name: "the owner of a namespace trusts", kind: "DanmNet", networkType: "sriov", text: `{"trust":"on"}`, invalid: "trust in the annotation alioth.dev/sriov gives pods power"},
		{name: "a tenant turns the check off", kind: "TenantNetwork", networkType: "sriov", text: `{"spoofchk":"off"}`, invalid: "only a ClusterNetwork can have it"},
		{name: "no JSON", kind: "ClusterNetwork", networkType: "sriov", text: "trust=on", invalid: "want a JSON object"},
		{name: "another type", kind: "ClusterNetwork", networkType: "macvlan", text: `{}`, invalid: "for networks of type sriov"},
		{name: "a tag on a VLAN", kind: "ClusterNetwork", networkType: "sriov", vlan: 7, text: `{"vlanProto":"802.1ad"}`, want: netif.VF{Proto: "802.1ad"}},
		{name: "a tag without a VLAN", kind: "ClusterNetwork", networkType: "sriov", text: `{"vlanProto":"802.1ad"}`, invalid: "need a VLAN"},
	} {
		meta := objectMeta("net", 1)
		if tc.text != "" {
			meta.Annotations = map[string]string{annotations.VFKey: tc.text}
		}
		spec := danmv1.NetworkSpec{NetworkID: "net", NetworkType: tc.networkType, Options: danmv1.NetworkOptions{VLAN: tc.vlan}}
		if strings.EqualFold(tc.networkType, "sriov") {
			spec.Options.DevicePool = "a.b/c"
		}
		row := outsideNetwork(&meta, multinet.Ref{Kind: tc.kind, Name: "net"}, &spec, &danmv1.NetworkStatus{})
		if (tc.invalid == "") != (row.Invalid == "") || !strings.Contains(row.Invalid, tc.invalid) {
			t.Errorf("%s: invalid %q, want %q", tc.name, row.Invalid, tc.invalid)
		}
		if diff := cmp.Diff(tc.want, row.VF); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestConvertNetwork_MacvlanMode_Read(t *testing.T) {
	for _, tc := range []struct {
		name, kind, networkType, text string
		mode, invalid                 string
	}{
		{"the default is the driver's", "DanmNet", "macvlan", "", "", ""},
		{"a mode", "DanmNet", "MacVLAN", "vepa", "vepa", ""},
		{"the device for itself", "ClusterNetwork", "macvlan", "passthru", "passthru", ""},
		{"a tenant's mode", "TenantNetwork", "macvlan", "private", "private", ""},
		{"a tenant takes the device", "TenantNetwork", "macvlan", "passthru", "", "only a ClusterNetwork can have it"},
		{"the owner of a namespace takes the device", "DanmNet", "macvlan", "passthru", "", "only a ClusterNetwork can have it"},
		{"no mode of the kernel", "DanmNet", "macvlan", "source", "", "use one of bridge, private, vepa, passthru"},
		{"another type", "DanmNet", "ipvlan", "private", "", "for networks of type macvlan"},
	} {
		meta := objectMeta("net", 1)
		if tc.text != "" {
			meta.Annotations = map[string]string{annotations.ModeKey: tc.text}
		}
		spec := danmv1.NetworkSpec{NetworkID: "net", NetworkType: tc.networkType}
		row := outsideNetwork(&meta, multinet.Ref{Kind: tc.kind, Name: "net"}, &spec, &danmv1.NetworkStatus{})
		if row.Settings.Mode != tc.mode || (tc.invalid == "") != (row.Invalid == "") || !strings.Contains(row.Invalid, tc.invalid) {
			t.Errorf("%s: mode %q, invalid %q; want %q and %q", tc.name, row.Settings.Mode, row.Invalid, tc.mode, tc.invalid)
		}
	}
}

// TestTenantNetwork_ProfileOfOtherType_Unusable: a tenant may change the type, and with it the
// NetworkID of the spec. Until the operator has examined that, no pod gets an interface by it.
func TestTenantNetwork_ProfileOfOtherType_Unusable(t *testing.T) {
	status := danmv1.NetworkStatus{
		Conditions: []metav1.Condition{
			{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReadyReason, Message: "pods may use it"},
			{Type: v1alpha1.ProfileCondition, Status: metav1.ConditionTrue},
		},
		Profile: &danmv1.NetworkProfile{NetworkType: "flannel", NetworkID: "given", NetworkIDGiven: true},
	}
	read := func(kind, networkType string) *multinet.Network {
		meta := objectMeta("net", 2)
		spec := danmv1.NetworkSpec{NetworkID: "forged", NetworkType: networkType}
		return outsideNetwork(&meta, multinet.Ref{Kind: kind, Name: "net"}, &spec, &status)
	}
	if got := read("TenantNetwork", "Flannel"); !got.Usable() || got.NetworkID != "given" {
		t.Errorf("with its profile: usable %v, NetworkID %q, want the profile's", got.Usable(), got.NetworkID)
	}
	for _, networkType := range []string{"calico", "ipvlan"} {
		if got := read("TenantNetwork", networkType); got.Usable() {
			t.Errorf("type %s, without a profile: usable", networkType)
		}
	}
	if got := read("DanmNet", "calico"); !got.Usable() {
		t.Error("a DanmNet needs no profile, and is not usable")
	}
}

// TestNetwork_Changed_UnusableUntilExamined: the condition of an earlier specification says nothing
// about the VLAN or the ranges of the present one.
func TestNetwork_Changed_UnusableUntilExamined(t *testing.T) {
	for generation, want := range map[int64]bool{3: true, 4: false} {
		status := danmv1.NetworkStatus{Conditions: []metav1.Condition{
			{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReadyReason, Message: "pods may use it", ObservedGeneration: 3},
		}}
		meta := objectMeta("net", 2)
		meta.Generation = generation
		got := outsideNetwork(&meta, multinet.Ref{Kind: "DanmNet", Name: "net"}, &danmv1.NetworkSpec{NetworkID: "net"}, &status)
		if !got.Ready || got.Usable() != want {
			t.Errorf("generation %d, examined was 3: Ready %v, usable %v", generation, got.Ready, got.Usable())
		}
	}
}
