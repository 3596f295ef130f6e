// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations_test

import (
	"encoding/json"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/alioth-net/alioth/api/annotations"
)

// statuses are a default network without a definition, and a device.
func statuses() []annotations.NetworkStatus {
	return []annotations.NetworkStatus{
		{
			Name: "alioth", Interface: "eth0", IPs: addrs("10.0.0.2", "fd00::2"), MAC: "02:00:0a:00:00:02", MTU: 1450, Default: true,
			Gateways: addrs("10.0.0.1", "fd00::1"),
		},
		{
			Name: "customer-a/fast", Interface: "net1",
			DNS: annotations.StatusDNS{Nameservers: []string{"10.0.0.10"}, Domain: "example", Search: []string{"a.example"}, Options: []string{"ndots:2"}},
			DeviceInfo: &annotations.DeviceInfo{
				Type:    "pci",
				Version: annotations.DeviceInfoVersion,
				PCI:     &annotations.PCIDevice{Address: "0000:af:06.0", PFAddress: "0000:af:00.0"},
			},
		},
	}
}

func TestFormatNetworkStatus_Interfaces_StableText(t *testing.T) {
	text, err := annotations.FormatNetworkStatus(statuses())
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"name":"alioth","interface":"eth0","ips":["10.0.0.2","fd00::2"],"mac":"02:00:0a:00:00:02","mtu":1450,"default":true,"dns":{},"gateway":["10.0.0.1","fd00::1"],"default-route":["10.0.0.1","fd00::1"]},` +
		`{"name":"customer-a/fast","interface":"net1","default":false,"dns":{"nameservers":["10.0.0.10"],"domain":"example","search":["a.example"],"options":["ndots:2"]},` +
		`"device-info":{"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:af:06.0","pf-pci-address":"0000:af:00.0"}}}]`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestFormatNetworkStatus_PublicClient_ReadsIt(t *testing.T) {
	list := statuses()
	for _, device := range []*annotations.DeviceInfo{
		{Type: "vdpa", Version: "1.1.0", VDPA: &annotations.VDPADevice{ParentDevice: "vdpa0", Driver: "vhost", Path: "/dev/vhost-vdpa-0", PCIAddress: "0000:01:00.1", PFAddress: "0000:01:00.0", RepresentorDevice: "rep0"}},
		{Type: "vhost-user", Version: "1.1.0", VhostUser: &annotations.VhostUserDevice{Mode: "client", Path: "/run/a"}},
		{Type: "memif", Version: "1.1.0", Memif: &annotations.MemifDevice{Role: "master", Path: "/run/b", Mode: "ethernet"}},
	} {
		list = append(list, annotations.NetworkStatus{Name: "customer-a/" + device.Type, DeviceInfo: device})
	}
	list[1].DeviceInfo.PCI.VhostNet, list[1].DeviceInfo.PCI.RDMADevice, list[1].DeviceInfo.PCI.RepresentorDevice = "/dev/vhost-net", "mlx5_0", "eth7"
	text, err := annotations.FormatNetworkStatus(list)
	if err != nil {
		t.Fatal(err)
	}
	var got []nadv1.NetworkStatus
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	want := []nadv1.NetworkStatus{
		{
			Name: "alioth", Interface: "eth0", IPs: []string{"10.0.0.2", "fd00::2"}, Mac: "02:00:0a:00:00:02", Mtu: 1450, Default: true,
			Gateway: []string{"10.0.0.1", "fd00::1"},
		},
		{
			Name: "customer-a/fast", Interface: "net1",
			DNS: nadv1.DNS{Nameservers: []string{"10.0.0.10"}, Domain: "example", Search: []string{"a.example"}, Options: []string{"ndots:2"}},
			DeviceInfo: &nadv1.DeviceInfo{Type: nadv1.DeviceInfoTypePCI, Version: nadv1.DeviceInfoVersion, Pci: &nadv1.PciDevice{
				PciAddress: "0000:af:06.0", PfPciAddress: "0000:af:00.0", Vhostnet: "/dev/vhost-net", RdmaDevice: "mlx5_0", RepresentorDevice: "eth7",
			}},
		},
		{Name: "customer-a/vdpa", DeviceInfo: &nadv1.DeviceInfo{Type: nadv1.DeviceInfoTypeVDPA, Version: nadv1.DeviceInfoVersion, Vdpa: &nadv1.VdpaDevice{
			ParentDevice: "vdpa0", Driver: "vhost", Path: "/dev/vhost-vdpa-0", PciAddress: "0000:01:00.1", PfPciAddress: "0000:01:00.0", RepresentorDevice: "rep0",
		}}},
		{
			Name: "customer-a/vhost-user",
			DeviceInfo: &nadv1.DeviceInfo{Type: nadv1.DeviceInfoTypeVHostUser, Version: nadv1.DeviceInfoVersion, VhostUser: &nadv1.VhostDevice{
				Mode: nadv1.VhostDeviceModeClient, Path: "/run/a",
			}},
		},
		{Name: "customer-a/memif", DeviceInfo: &nadv1.DeviceInfo{Type: nadv1.DeviceInfoTypeMemif, Version: nadv1.DeviceInfoVersion, Memif: &nadv1.MemifDevice{
			Role: nadv1.MemifDeviceRoleMaster, Path: "/run/b", Mode: nadv1.MemifDeviceModeEthernet,
		}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the client reads (-want +got):\n%s", diff)
	}
	if nadv1.NetworkStatusAnnot != annotations.NetworkStatusKey || nadv1.NetworkAttachmentAnnot != annotations.NetworksKey {
		t.Error("the client has other names for the annotations")
	}
}

func TestParseNetworks_PublicClientText_Read(t *testing.T) {
	list := []nadv1.NetworkSelectionElement{
		{Name: "net-a", Namespace: "other", InterfaceRequest: "x", MacRequest: "02:00:00:00:00:01", IPRequest: []string{"10.0.0.2/24"}},
		{
			Name: "net-b", CNIArgs: &map[string]any{"a": 1}, PortMappingsRequest: []*nadv1.PortMapEntry{{HostPort: 8080, ContainerPort: 80, Protocol: "TCP"}},
			GatewayRequest: []net.IP{net.IPv4(10, 0, 0, 1)},
		},
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	got, err := annotations.ParseNetworks(string(text), "pods")
	if err != nil {
		t.Fatal(err)
	}
	want := []annotations.NetworkSelection{
		{
			Namespace: "other",
			Name:      "net-a",
			Interface: "x",
			MAC:       "02:00:00:00:00:01",
			IPs:       []annotations.RequestedIP{{IP: netip.MustParseAddr("10.0.0.2"), Bits: 24}},
		},
		{
			Namespace: "pods", Name: "net-b", Interface: "net2", CNIArgs: json.RawMessage(`{"a":1}`),
			PortMappings: []annotations.PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}}, DefaultRoute: true, Gateways: addrs("10.0.0.1"),
		},
	}
	if diff := cmp.Diff(want, got, equalAddrs); diff != "" {
		t.Errorf("selections (-want +got):\n%s", diff)
	}
}

func TestFormatNetworkStatus_Inconsistent_Refused(t *testing.T) {
	for name, test := range map[string]struct {
		change func([]annotations.NetworkStatus) []annotations.NetworkStatus
		cause  string
	}{
		"no interface":        {func([]annotations.NetworkStatus) []annotations.NetworkStatus { return nil }, "0 of 0 interfaces are the default"},
		"no default":          {func(l []annotations.NetworkStatus) []annotations.NetworkStatus { l[0].Default = false; return l }, "0 of 2 interfaces are the default"},
		"two defaults":        {func(l []annotations.NetworkStatus) []annotations.NetworkStatus { l[1].Default = true; return l }, "2 of 2 interfaces are the default"},
		"no name":             {func(l []annotations.NetworkStatus) []annotations.NetworkStatus { l[1].Name = ""; return l }, "network status 1: the name"},
		"a MAC alone":         {func(l []annotations.NetworkStatus) []annotations.NetworkStatus { l[0].Interface = ""; return l }, "has no interface"},
		"an IP without value": {func(l []annotations.NetworkStatus) []annotations.NetworkStatus { l[0].IPs[0] = netip.Addr{}; return l }, "no plain address"},
		"a gateway with zone": {func(l []annotations.NetworkStatus) []annotations.NetworkStatus {
			l[0].Gateways = addrs("fe80::1%a")
			return l
		}, "no plain address"},
		"a device of another type": {
			func(l []annotations.NetworkStatus) []annotations.NetworkStatus {
				l[1].DeviceInfo.Type = "memif"
				return l
			},
			`device information of type "memif"`,
		},
	} {
		got, err := annotations.FormatNetworkStatus(test.change(statuses()))
		if err == nil {
			t.Errorf("%s: accepted as %s", name, got)
		} else if !strings.Contains(err.Error(), test.cause) {
			t.Errorf("%s: error is %q, want it to contain %q", name, err, test.cause)
		}
	}
}

func TestParseDeviceInfo_EachType_ReadOrRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"pci","version":"1.0.0","pci":{"pci-address":"0000:af:06.0","new":1}}`:                                  `{"type":"pci","version":"1.0.0","pci":{"pci-address":"0000:af:06.0"}}`,
		`{"type":"memif","memif":{"role":"master","path":"/run/b","mode":"ip"}}`:                                         `{"type":"memif","version":"1.1.0","memif":{"role":"master","path":"/run/b","mode":"ip"}}`,
		`{"type":"vhost-user","version":"1.1.0","vhost-user":{"mode":"client","path":"/a"},"pci":{"pci-address":"x"}}`:   `{"type":"vhost-user","version":"1.1.0","vhost-user":{"mode":"client","path":"/a"}}`,
		`{"type":"vdpa","version":"1.1.0","vdpa":{"parent-device":"vdpa0","driver":"vhost","path":"/dev/vhost-vdpa-0"}}`: `{"type":"vdpa","version":"1.1.0","vdpa":{"parent-device":"vdpa0","driver":"vhost","path":"/dev/vhost-vdpa-0"}}`,
		`{"type":"pci","version":"1.1.0"}`:   `error: device information of type "pci"`,
		`{"type":"other","version":"1.1.0"}`: `error: device information of type "other"`,
		`[]`:                                 "error: decode",
		`{"type":"pci","version":"1.1.0","pci":{"pci-address":"` + strings.Repeat("x", 300) + `"}}`: "error: device information has a text of 300 bytes",
	} {
		got := ""
		if info, err := annotations.ParseDeviceInfo([]byte(text)); err != nil {
			got = "error: " + err.Error()
		} else if raw, err := json.Marshal(info); err != nil {
			t.Fatal(err)
		} else {
			got = string(raw)
		}
		if got != want && (!strings.HasPrefix(want, "error: ") || !strings.HasPrefix(got, want)) {
			t.Errorf("%.80s: %s, want %s", text, got, want)
		}
	}
}
