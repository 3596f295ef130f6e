// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/nodeipam/rest"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest/resttest"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

// The bodies below come from the public client of CNS, byte for byte: it encodes its structs with
// a line feed at the end.
const (
	plural = `{"desiredIPAddresses":null,"podInterfaceID":"3d3a4f61-eth0","infraContainerID":"` + container + `",` +
		`"orchestratorContext":{"PodName":"web-0","PodNamespace":"blue"},"ifname":"eth0","secondaryInterfacesExist":false,` +
		`"BackendInterfaceExist":false,"BacknendInterfaceMacAddress":null}` + "\n"
	singular = `{"DesiredIPAddress":"","PodInterfaceID":"3d3a4f61-eth0","InfraContainerID":"` + container + `",` +
		`"OrchestratorContext":{"PodName":"web-0","PodNamespace":"blue"},"Ifname":""}` + "\n"
	// queued is the body that its watcher of missed releases sends.
	queued = `{"desiredIPAddresses":null,"podInterfaceID":"3d3a4f61-eth0","infraContainerID":"` + container + `",` +
		`"orchestratorContext":null,"ifname":"","secondaryInterfacesExist":false,"BackendInterfaceExist":false,"BacknendInterfaceMacAddress":null}` + "\n"
	patched = `{"eth0":{"IPv4":null,"HnsEndpointID":"","HostVethName":"azv3d3a4f6","NICType":"InfraNIC"}}` + "\n"
)

// These are the structs of a client, with the names on the wire that CNS documents.
type (
	clientResponse struct {
		ReturnCode int    `json:"ReturnCode"`
		Message    string `json:"Message"`
	}
	clientSubnet struct {
		IPAddress    string
		PrefixLength uint8
	}
	clientRoute struct{ IPAddress, GatewayIPAddress, InterfaceToUse string }
	clientInfo  struct {
		PodIPConfig                     clientSubnet
		NetworkContainerPrimaryIPConfig struct {
			IPSubnet         clientSubnet
			DNSServers       []string
			GatewayIPAddress string
		}
		HostPrimaryIPInfo struct{ Gateway, PrimaryIP, Subnet string }
		NICType           string
		InterfaceName     string
		MacAddress        string
		SkipDefaultRoutes bool
		Routes            []clientRoute
	}
	clientAnswers struct {
		PodIPInfo []clientInfo   `json:"podIPInfo"`
		Response  clientResponse `json:"response"`
	}
	clientAnswer struct {
		PodIpInfo clientInfo
		Response  clientResponse
	}
	clientEndpoint struct {
		Response     clientResponse
		EndpointInfo struct {
			PodName, PodNamespace string
			IfnameToIPMap         map[string]*struct {
				IPv4, IPv6                                       []net.IPNet
				HnsEndpointID, HostVethName, MacAddress, NICType string
			}
		}
	}
)

func decoded[T any](t *testing.T, r reply) T {
	t.Helper()
	var value T
	if err := json.Unmarshal([]byte(r.body), &value); err != nil || r.status != http.StatusOK {
		t.Fatalf("status %d, %v: %s", r.status, err, r.body)
	}
	return value
}

func TestRESTContract_CNSClient_AnswerDecoded(t *testing.T) {
	for _, version := range []string{"", "/v0.1", "/v0.2"} {
		t.Run("version "+version, func(t *testing.T) {
			r := newRig(t, &resttest.Service{Devices: true})
			got := decoded[clientAnswers](t, r.do("POST", version+"/network/requestipconfigs", plural))
			infra := clientInfo{
				PodIPConfig: clientSubnet{"192.0.2.2", 24}, NICType: "InfraNIC", InterfaceName: "eth0", SkipDefaultRoutes: true,
				Routes: []clientRoute{{IPAddress: "10.96.0.0/12", GatewayIPAddress: "169.254.1.1"}},
			}
			infra.NetworkContainerPrimaryIPConfig.IPSubnet = clientSubnet{"192.0.2.0", 24}
			infra.NetworkContainerPrimaryIPConfig.GatewayIPAddress = "192.0.2.1"
			device := clientInfo{
				PodIPConfig: clientSubnet{"203.0.113.2", 32}, NICType: "FrontendNIC", InterfaceName: "eth1", MacAddress: "02:00:00:00:00:01",
				Routes: []clientRoute{{IPAddress: "169.254.2.1/32"}, {IPAddress: "0.0.0.0/0", GatewayIPAddress: "169.254.2.1"}},
			}
			device.NetworkContainerPrimaryIPConfig.IPSubnet = clientSubnet{"203.0.113.0", 24}
			for _, info := range []*clientInfo{&infra, &device} {
				info.HostPrimaryIPInfo.Gateway, info.HostPrimaryIPInfo.PrimaryIP, info.HostPrimaryIPInfo.Subnet = "198.51.100.1", "198.51.100.9", "198.51.100.0/24"
				info.NetworkContainerPrimaryIPConfig.DNSServers = []string{}
			}
			if diff := cmp.Diff(clientAnswers{PodIPInfo: []clientInfo{infra, device}}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			wantKey := rest.Key{ContainerID: container, IfName: "eth0", PodInterfaceID: "3d3a4f61-eth0"}
			if diff := cmp.Diff([]rest.Request{{Key: wantKey, Pod: rest.Pod{Namespace: "blue", Name: "web-0"}}}, r.service.Requests); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRESTContract_Answer_BytesExact(t *testing.T) {
	r := newRig(t, &resttest.Service{})
	const info = `{"PodIPConfig":{"IPAddress":"192.0.2.2","PrefixLength":24},"NetworkContainerPrimaryIPConfig":{"IPSubnet":{"IPAddress":"192.0.2.0","PrefixLength":24},` +
		`"DNSServers":[],"GatewayIPAddress":"192.0.2.1"},"HostPrimaryIPInfo":{"Gateway":"198.51.100.1","PrimaryIP":"198.51.100.9","Subnet":"198.51.100.0/24"},` +
		`"NICType":"InfraNIC","InterfaceName":"eth0","MacAddress":"","SkipDefaultRoutes":false,"Routes":[],"NetworkContainerID":"nc-infra"}`
	for path, exchange := range map[string][2]string{
		"/network/requestipconfigs": {plural, `{"podIPInfo":[` + info + `],"response":{"ReturnCode":0,"Message":""}}` + "\n"},
		"/network/requestipconfig":  {singular, `{"PodIpInfo":` + info + `,"Response":{"ReturnCode":0,"Message":""}}` + "\n"},
	} {
		if diff := cmp.Diff(exchange[1], r.do("POST", path, exchange[0]).body); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	for path, body := range map[string]string{"/network/releaseipconfigs": plural, "/network/releaseipconfig": singular} {
		if got := r.do("POST", path, body); got.body != `{"ReturnCode":0,"Message":""}`+"\n" || got.name != "Success" {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

func TestRESTContract_SameKey_AddressKeptUntilRelease(t *testing.T) {
	r := newRig(t, &resttest.Service{})
	ask := func(body string) string {
		t.Helper()
		return decoded[clientAnswers](t, r.do("POST", "/network/requestipconfigs", body)).PodIPInfo[0].PodIPConfig.IPAddress
	}
	first := ask(plural)
	other := ask(strings.ReplaceAll(plural, container, "other"))
	if again := ask(plural); again != first || other == first {
		t.Errorf("first %s, again %s, another container %s", first, again, other)
	}
	if one := decoded[clientAnswer](t, r.do("POST", "/network/requestipconfig", singular)); one.PodIpInfo.PodIPConfig.IPAddress != first {
		t.Errorf("by the singular path: %+v", one)
	}
	for range 2 { // the second time it is not known any more
		if got := r.do("POST", "/network/releaseipconfigs", queued); got.code(t) != 0 || got.status != http.StatusOK {
			t.Errorf("release: %+v", got)
		}
	}
	if left, err := r.service.Attachments(t.Context(), container); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if reused := ask(strings.ReplaceAll(plural, container, "third")); reused != first {
		t.Errorf("the next one has %s, not the released %s", reused, first)
	}
}

func TestRESTContract_EndpointState_Returned(t *testing.T) {
	r := newRig(t, &resttest.Service{Devices: true, IPv6: true})
	path := "/network/endpoints/" + container
	if got := r.do("GET", path, ""); got.code(t) != 14 || got.status != http.StatusOK {
		t.Errorf("before the request: %+v", got)
	}
	if got := r.do("PATCH", path, patched); got.code(t) != 18 {
		t.Errorf("a patch before the request: %+v", got)
	}
	decoded[clientAnswers](t, r.do("POST", "/network/requestipconfigs", plural))
	if got := r.do("PATCH", path, patched); got.code(t) != 0 || got.body != `{"ReturnCode":0,"Message":""}`+"\n" {
		t.Errorf("patch: %+v", got)
	}
	info := decoded[clientEndpoint](t, r.do("GET", path, "")).EndpointInfo
	eth0, eth1 := info.IfnameToIPMap["eth0"], info.IfnameToIPMap["eth1"]
	if info.PodName != "web-0" || info.PodNamespace != "blue" || eth0 == nil || eth1 == nil {
		t.Fatalf("%+v", info)
	}
	if eth0.HostVethName != "azv3d3a4f6" || eth0.NICType != "InfraNIC" || eth0.IPv4[0].String() != "192.0.2.2/24" || eth0.IPv6[0].String() != "2001:db8::2/64" {
		t.Errorf("eth0: %+v", eth0)
	}
	if eth1.MacAddress != "02:00:00:00:00:01" || eth1.NICType != "FrontendNIC" || eth1.IPv4[0].String() != "203.0.113.2/24" || eth1.IPv6 != nil {
		t.Errorf("eth1: %+v", eth1)
	}
	for range 2 {
		if got := r.do("DELETE", path, ""); got.code(t) != 0 {
			t.Errorf("delete: %+v", got)
		}
	}
	if eth0 := decoded[clientEndpoint](t, r.do("GET", path, "")).EndpointInfo.IfnameToIPMap["eth0"]; eth0.HostVethName != "" || len(eth0.IPv4) != 1 {
		t.Errorf("after the deletion: %+v", eth0)
	}
}

func TestRESTContract_Release_EndpointForgotten(t *testing.T) {
	r := newRig(t, &resttest.Service{})
	path := "/network/endpoints/" + container
	second := strings.ReplaceAll(plural, `"ifname":"eth0"`, `"ifname":"net1"`)
	for _, exchange := range [][3]string{
		{"POST", "/network/requestipconfigs", plural},
		{"POST", "/network/requestipconfigs", second},
		{"PATCH", path, patched},
		{"POST", "/network/releaseipconfigs", second},
	} {
		if got := r.do(exchange[0], exchange[1], exchange[2]); got.code(t) != 0 {
			t.Fatalf("%s: %+v", exchange[1], got)
		}
	}
	if r.store.Get(container) == nil {
		t.Error("forgotten although eth0 is attached")
	}
	if got := r.do("POST", "/network/requestipconfigs", second); got.code(t) != 0 {
		t.Fatalf("%+v", got)
	}
	r.service.SetState("net1", wire.PendingRelease)
	if got := decoded[clientEndpoint](t, r.do("GET", path, "")).EndpointInfo.IfnameToIPMap; got["eth0"] == nil || got["net1"] != nil {
		t.Errorf("while net1 is being released: %v", got)
	}
	if got := r.do("POST", "/network/releaseipconfigs", plural); got.code(t) != 0 || r.store.Get(container) != nil {
		t.Errorf("%+v, left: %v", got, r.store.Get(container))
	}
	if got := r.do("GET", path, ""); got.code(t) != 14 {
		t.Errorf("the endpoint of a released container: %+v", got)
	}
	if got := r.do("DELETE", path, ""); got.code(t) != 14 {
		t.Errorf("deleting it: %+v", got)
	}
}

// TestRESTContract_OverHTTP_Answered uses a real connection, which net/http reads and watches.
func TestRESTContract_OverHTTP_Answered(t *testing.T) {
	r := newRig(t, &resttest.Service{})
	server := httptest.NewServer(r.handler)
	defer server.Close()
	for range 3 { // on one connection
		response, err := http.Post(server.URL+"/network/requestipconfigs", "application/json", strings.NewReader(plural))
		if err != nil {
			t.Fatal(err)
		}
		var got clientAnswers
		if err := json.NewDecoder(response.Body).Decode(&got); err != nil || len(got.PodIPInfo) != 1 || response.Header.Get("Cns_return_code") != "Success" {
			t.Errorf("%v, %+v, %v", err, got, response.Header)
		}
		response.Body.Close()
	}
}
