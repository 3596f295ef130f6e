// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/annotations"
)

// selected is the first element of a list, in the namespace of the pod.
func selected(change func(*annotations.NetworkSelection)) []annotations.NetworkSelection {
	one := annotations.NetworkSelection{Namespace: "pods", Name: "net-a", Interface: "net1"}
	change(&one)
	return []annotations.NetworkSelection{one}
}

func TestParseNetworks_BothFormats_Read(t *testing.T) {
	three := []annotations.NetworkSelection{
		{Namespace: "pods", Name: "net-a", Interface: "net1"},
		{Namespace: "pods", Name: "net-b", Interface: "net2"},
		{Namespace: "other-ns", Name: "net-c", Interface: "net3"},
	}
	tests := map[string]struct {
		text string
		want []annotations.NetworkSelection
	}{
		"no text":                          {"", nil},
		"blank text":                       {" \n\t", nil},
		"an empty list":                    {"[]", nil},
		"the document's names":             {"net-a,net-b,other-ns/net-c", three},
		"the document's JSON":              {`[{"name":"net-a"},{"name":"net-b"},{"name":"net-c","namespace":"other-ns"}]`, three},
		"blanks around names":              {" net-a ,\n net-b,\tother-ns/net-c \n", three},
		"one network twice":                {"net-a,net-a", []annotations.NetworkSelection{three[0], {Namespace: "pods", Name: "net-a", Interface: "net2"}}},
		"a name with an interface":         {"net-a@eth5", selected(func(s *annotations.NetworkSelection) { s.Interface = "eth5" })},
		"an interface in upper case":       {"net-a@IF_1.x", selected(func(s *annotations.NetworkSelection) { s.Interface = "IF_1.x" })},
		"all parts":                        {"other/net-a@eth5", selected(func(s *annotations.NetworkSelection) { s.Namespace, s.Interface = "other", "eth5" })},
		"a requested name shifts no other": {"net-a@x,net-b", []annotations.NetworkSelection{{Namespace: "pods", Name: "net-a", Interface: "x"}, three[1]}},
		"an interface":                     {`[{"name":"net-a","interface":"eth5"}]`, selected(func(s *annotations.NetworkSelection) { s.Interface = "eth5" })},
		"an interface under its old key": {
			`[{"name":"net-a","interfaceRequest":"eth5"}]`,
			selected(func(s *annotations.NetworkSelection) { s.Interface = "eth5" }),
		},
		"an interface under both keys": {
			`[{"name":"net-a","interfaceRequest":"eth5","interface":"eth5"}]`,
			selected(func(s *annotations.NetworkSelection) { s.Interface = "eth5" }),
		},
		"keys of others (reverse DNS)": {`[{"name":"net-a","org.foo.bar.key":{"name":1},"x.y":null}]`, selected(func(*annotations.NetworkSelection) {})},
		"null is no request": {
			`[{"name":"net-a","namespace":null,"ips":null,"mac":null,"interface":null,"cni-args":null,"portMappings":null,"bandwidth":null,"default-route":null,"infiniband-guid":null,"ipam-claim-reference":null,"deviceID":null}]`,
			selected(func(*annotations.NetworkSelection) {}),
		},
		"IPs with and without length": {`[{"name":"net-a","ips":["10.0.0.2/24","FD00::2"]}]`, selected(func(s *annotations.NetworkSelection) {
			s.IPs = []annotations.RequestedIP{{IP: netip.MustParseAddr("10.0.0.2"), Bits: 24}, {IP: netip.MustParseAddr("fd00::2")}}
		})},
		"two IPs of one family": {`[{"name":"net-a","ips":["10.0.0.2","10.0.0.3"]}]`, selected(func(s *annotations.NetworkSelection) {
			s.IPs = []annotations.RequestedIP{{IP: netip.MustParseAddr("10.0.0.2")}, {IP: netip.MustParseAddr("10.0.0.3")}}
		})},
		"a MAC": {`[{"name":"net-a","mac":"02:23:45:67:89:AB"}]`, selected(func(s *annotations.NetworkSelection) { s.MAC = "02:23:45:67:89:ab" })},
		"arguments": {`[{"name":"net-a","cni-args": { "b" : [1.50, 18446744073709551616], "a": {"x": null} }}]`, selected(func(s *annotations.NetworkSelection) {
			s.CNIArgs = json.RawMessage(`{"b":[1.50,18446744073709551616],"a":{"x":null}}`)
		})},
		"arguments that are none": {`[{"name":"net-a","cni-args": { }}]`, selected(func(*annotations.NetworkSelection) {})},
		"ports, TCP by default": {
			`[{"name":"net-a","portMappings":[{"hostPort":8080,"containerPort":80},{"hostPort":8080,"containerPort":80,"protocol":"Udp"},{"hostPort":1,"containerPort":65535,"protocol":"SCTP","hostIP":"192.0.2.1"}]}]`,
			selected(func(s *annotations.NetworkSelection) {
				s.PortMappings = []annotations.PortMapping{
					{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"},
					{HostPort: 8080, ContainerPort: 80, Protocol: "udp"},
					{HostPort: 1, ContainerPort: 65535, Protocol: "sctp", HostIP: netip.MustParseAddr("192.0.2.1")},
				}
			}),
		},
		"bandwidth": {`[{"name":"net-a","bandwidth":{"ingressRate":2048,"ingressBurst":1600,"egressRate":4096}}]`, selected(func(s *annotations.NetworkSelection) {
			s.Bandwidth = annotations.Bandwidth{IngressRate: 2048, IngressBurst: 1600, EgressRate: 4096}
		})},
		"default route": {
			`[{"name":"net-a","default-route":["10.0.0.1","fe80::1"]}]`,
			selected(func(s *annotations.NetworkSelection) { s.DefaultRoute, s.Gateways = true, addrs("10.0.0.1", "fe80::1") }),
		},
		"default route without a gateway": {`[{"name":"net-a","default-route":[]}]`, selected(func(s *annotations.NetworkSelection) { s.DefaultRoute = true })},
		"a GUID, as the capability is called": {
			`[{"name":"net-a","infinibandGUID":"C2-11-22-33-44-55-66-77"}]`,
			selected(func(s *annotations.NetworkSelection) { s.GUID = "c2:11:22:33:44:55:66:77" }),
		},
		"a GUID": {
			`[{"name":"net-a","infiniband-guid":"c2:11:22:33:44:55:66:77"}]`,
			selected(func(s *annotations.NetworkSelection) { s.GUID = "c2:11:22:33:44:55:66:77" }),
		},
		"a key that Multus does not read": {
			`[{"name":"net-a","gateway":["10.0.0.1"]}]`,
			selected(func(s *annotations.NetworkSelection) { s.Foreign = []string{"gateway"} }),
		},
		"a device": {
			`[{"name":"net-a","deviceID":"0000:af:06.0"}]`,
			selected(func(s *annotations.NetworkSelection) { s.DeviceID = "0000:af:06.0" }),
		},
	}
	for name, test := range tests {
		got, err := annotations.ParseNetworks(test.text, "pods")
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, got, equalAddrs); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseDefaultNetwork_EachForm_OneDefinition(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "",
		" ":                  "",
		"net-a":              "pods/net-a eth0",
		"other/net-a":        "other/net-a eth0",
		"other/net-a@eth0":   "other/net-a eth0",
		`[{"name":"net-a"}]`: "pods/net-a eth0",
		`[]`:                 "",
		"net-a,net-b":        "error: it has 2 elements",
		"net-a@net1":         "error: it names the interface \"net1\"",
		"../net-a":           "error: want one name such as",
		"a/b/c":              "error: want one name such as",
		`[{"name":"a/b"}]`:   "error: want one name such as",
		`{"name":"net-a"}`:   "error: want one name such as",
	} {
		one, err := annotations.ParseDefaultNetwork(text, "pods")
		got := ""
		switch {
		case err != nil:
			got = "error: " + err.Error()
		case one != nil:
			got = one.Namespace + "/" + one.Name + " " + one.Interface
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// An annotation with a malformed value is an error as a whole: the specification's "invalid and
// ignored" would start the pod without a network that it relies on.
func TestParseNetworks_OneWrongValue_WholeRefused(t *testing.T) {
	// element is a good element and one with further keys.
	element := func(keys string) string { return `[{"name":"good"},{"name":"net-a",` + keys + `}]` }
	tests := map[string]struct{ text, cause string }{
		"two slashes":             {"a/b/c", "is no name of a NetworkAttachmentDefinition"},
		"two at signs":            {"a@b@c", `"b@c" is no interface name`},
		"an empty item":           {"a,,b", "element 1: it is empty"},
		"a comma at the end":      {"a,b,", "it is empty: remove a comma"},
		"a comma alone":           {",", "it is empty"},
		"a name that is missing":  {"ns/", "is no name of a NetworkAttachmentDefinition"},
		"no name, an interface":   {"@eth5", "is no name of a NetworkAttachmentDefinition"},
		"no namespace":            {"/a", "the namespace in front of the slash is missing"},
		"no interface behind @":   {"a@", "is no interface name"},
		"a blank in an item":      {"a b", "is no name"},
		"blanks around a slash":   {"ns / a", "is no name"},
		"a path":                  {"../../etc/passwd", "is no name"},
		"dots as a name":          {"ns/..", "is no name"},
		"a name in upper case":    {"Net-A", "is no name"},
		"a namespace with a dot":  {"a.b/c", `namespace "a.b" is no name of a namespace`},
		"an interface with slash": {"a@b/c", "is no interface name"},
		"65 names":                {strings.Repeat("a,", 64) + "a", "65 elements, and at most 64 are accepted, because"},
		"many names":              {strings.Repeat("a,", 1<<20) + "a", "at most 64 are accepted, because"},

		"an object in place of a list": {`{"name":"net-a"}`, "want a list such as net-a,other-ns/net-b@net2 or [{"},
		"a string in place of a list":  {`"net-a"`, "'['"},
		"a list of strings":            {`["net-a"]`, "an object has to be where it has a string"},
		"an element null":              {`[null]`, "element 0 is null"},
		"a second list":                {`[{"name":"a"}][]`, "after top-level value"},
		"JSON that ends too early":     {`[{"name":"a"`, "unexpected end"},
		"65 elements":                  {"[" + strings.Repeat(`{"name":"a"},`, 64) + `{"name":"a"}]`, "65 elements"},
		"a text that is too long":      {"[" + strings.Repeat(" ", 64<<10) + "]", "at most 65536 are accepted"},
		"no name":                      {`[{}]`, `name "" is no name`},
		"no name, other keys":          {`[{"namespace":"a"}]`, `name "" is no name`},
		"a name with a slash":          {`[{"name":"ns/net-a"}]`, `as "namespace" in JSON`},
		"a name with an interface":     {`[{"name":"net-a@eth5"}]`, "is no name"},
		"a name of another type":       {`[{"name":5}]`, `"name" has a value of the wrong type (number)`},
		"a namespace with a slash":     {element(`"namespace":"a/b"`), `element 1: namespace "a/b"`},

		"a reserved unknown key":   {element(`"ipRequest":["10.0.0.1"]`), `unknown field "ipRequest"`},
		"another one":              {element(`"gatewayRequest":["10.0.0.1"]`), `unknown field "gatewayRequest"`},
		"a key in another case":    {element(`"IPs":["10.0.0.1"]`), `unknown field "IPs"`},
		"a key twice":              {element(`"mac":"02:00:00:00:00:01","mac":"02:00:00:00:00:02"`), `duplicate field`},
		"an IPAM claim":            {element(`"ipam-claim-reference":"c"`), `"ipam-claim-reference" is not supported`},
		"an IPAM claim beside IPs": {element(`"ipam-claim-reference":"c","ips":["10.0.0.1"]`), `"ipam-claim-reference" is not supported`},
		"a GUID of 6 bytes":        {element(`"infiniband-guid":"c2:11:22:33:44:55"`), "infiniband-guid \"c2:11:22:33:44:55\" is no GUID: 8 bytes"},
		"a GUID of zeros":          {element(`"infiniband-guid":"00:00:00:00:00:00:00:00"`), "is no GUID"},
		"two GUIDs": {
			element(`"infiniband-guid":"c2:11:22:33:44:55:66:77","infinibandGUID":"c2:11:22:33:44:55:66:78"`),
			"differ: keep the first",
		},
		"IPs that are none":             {element(`"ips":["ten"]`), `ips: "ten" is no unicast`},
		"no IPs":                        {element(`"ips":[]`), `"ips" is empty`},
		"an IP twice":                   {element(`"ips":["10.0.0.1","10.0.0.1/24"]`), "10.0.0.1 is listed twice"},
		"an IP with a bad length":       {element(`"ips":["10.0.0.1/33"]`), "prefix length from 1 to 32"},
		"an IP null":                    {element(`"ips":[null]`), "is no unicast"},
		"IPs of another type":           {element(`"ips":"10.0.0.1"`), `"ips" has a value of the wrong type`},
		"a MAC that is none":            {element(`"mac":"02:23:45:67:89"`), "no MAC of an interface"},
		"a MAC of 8 bytes":              {element(`"mac":"02:23:45:67:89:01:02:03"`), "no MAC of an interface"},
		"a MAC of 20 bytes":             {element(`"mac":"00:00:00:00:fe:80:00:00:00:00:00:00:02:00:5e:10:00:00:00:01"`), "no MAC of an interface"},
		"a MAC of a group":              {element(`"mac":"01:00:5e:00:00:01"`), "no MAC of an interface"},
		"a MAC of zeros":                {element(`"mac":"00:00:00:00:00:00"`), "no MAC of an interface"},
		"an interface of 16 characters": {element(`"interface":"abcdefghijklmnop"`), "no interface name"},
		"an interface with a slash":     {element(`"interface":"../x"`), "no interface name"},
		"an interface with a colon":     {element(`"interface":"a:0"`), "no interface name"},
		"the loopback device":           {element(`"interface":"lo"`), "reserved"},
		"the first interface's name":    {element(`"interface":"eth0"`), "taken by the pod's first interface"},
		"the name of another element":   {element(`"interface":"net1"`), "element 1: the interface name net1 is taken by element 0"},
		"the name of a later element":   {`[{"name":"a","interface":"net2"},{"name":"b"}]`, "net2 is taken by element 0"},
		"an interface that differs":     {element(`"interface":"a","interfaceRequest":"b"`), "differ"},
		"arguments as a list":           {element(`"cni-args":[]`), "cni-args: it does not start with '{'"},
		"an argument twice":             {element(`"cni-args":{"a":{"b":1,"b":2}}`), "cni-args: duplicate field"},
		"ports as an object":            {element(`"portMappings":{"hostPort":1,"containerPort":1}`), `"portMappings" has a value of the wrong type`},
		"a port null":                   {element(`"portMappings":[null]`), "portMappings: element 0 is null"},
		"no host port":                  {element(`"portMappings":[{"containerPort":80}]`), "have to be 1 to 65535"},
		"no container port":             {element(`"portMappings":[{"hostPort":80}]`), "have to be 1 to 65535"},
		"port 0":                        {element(`"portMappings":[{"hostPort":80,"containerPort":0}]`), "have to be 1 to 65535"},
		"port 65536":                    {element(`"portMappings":[{"hostPort":65536,"containerPort":80}]`), "have to be 1 to 65535"},
		"a port below 0":                {element(`"portMappings":[{"hostPort":-1,"containerPort":80}]`), "have to be 1 to 65535"},
		"a port as text":                {element(`"portMappings":[{"hostPort":"80","containerPort":80}]`), `"hostPort" has a value of the wrong type`},
		"a protocol that is none":       {element(`"portMappings":[{"hostPort":80,"containerPort":80,"protocol":"icmp"}]`), `protocol "icmp" is none of`},
		"a host IP that is none":        {element(`"portMappings":[{"hostPort":80,"containerPort":80,"hostIP":"localhost"}]`), `hostIP "localhost"`},
		"a host port twice": {
			element(`"portMappings":[{"hostPort":80,"containerPort":80},{"hostPort":80,"containerPort":81,"protocol":"tcp"}]`),
			"hostPort 80/tcp is listed twice",
		},
		"an unknown key of a port":      {element(`"portMappings":[{"hostPort":80,"containerPort":80,"host":"a"}]`), "unknown field"},
		"a rate of 0":                   {element(`"bandwidth":{"ingressRate":0}`), "bandwidth: 0 is no rate"},
		"a rate below 0":                {element(`"bandwidth":{"egressRate":-1}`), "bandwidth: -1 is no rate"},
		"a rate that is too large":      {element(`"bandwidth":{"egressRate":9223372036854775808}`), "wrong type"},
		"a burst without rate":          {element(`"bandwidth":{"ingressBurst":1}`), "a burst needs the rate"},
		"a burst with the other's rate": {element(`"bandwidth":{"ingressRate":1,"egressBurst":1}`), "a burst needs the rate"},
		"a bandwidth without rates":     {element(`"bandwidth":{}`), "it has no rate"},
		"an unknown key of bandwidth":   {element(`"bandwidth":{"rate":1}`), "unknown field"},
		"a gateway that is none":        {element(`"default-route":["gw"]`), `default-route: "gw"`},
		"a gateway with a length":       {element(`"default-route":["10.0.0.1/24"]`), `default-route: "10.0.0.1/24"`},
		"two gateways of a family":      {element(`"default-route":["10.0.0.1","10.0.0.2"]`), "10.0.0.2 is the second IPv4 gateway"},
		"a gateway as text":             {element(`"default-route":"10.0.0.1"`), "wrong type"},
		"two default routes": {
			`[{"name":"a","default-route":["10.0.0.1"]},{"name":"b"},{"name":"c","default-route":[]}]`,
			`elements 0 and 2 both have "default-route"`,
		},
		"a device with a slash":            {element(`"deviceID":"../../x"`), `deviceID "../../x" is no device`},
		"a device with a blank":            {element(`"deviceID":"a b"`), "is no device"},
		"a device of another type":         {element(`"deviceID":7`), `"deviceID" has a value of the wrong type`},
		"a bad element behind a good list": {`[{"name":"a"},{"name":"b"},{"name":"C"}]`, `element 2: name "C"`},
	}
	for name, test := range tests {
		got, err := annotations.ParseNetworks(test.text, "pods")
		if err == nil {
			t.Errorf("%s: accepted as %+v", name, got)
		} else if !strings.Contains(err.Error(), test.cause) {
			t.Errorf("%s: error is %q, want it to contain %q", name, err, test.cause)
		}
		if err != nil && len(got) > 0 {
			t.Errorf("%s: there are %d selections beside the error", name, len(got))
		}
	}
}

func TestParseNetworks_Requests_FormOfCNI(t *testing.T) {
	list, err := annotations.ParseNetworks(
		`[{"name":"a","portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"TCP"},{"hostPort":53,"containerPort":53,"protocol":"UDP","hostIP":"192.0.2.1"}],
		"bandwidth":{"egressRate":5,"egressBurst":6},"ips":["10.0.0.2/24","fd00::2"]}]`,
		"pods",
	)
	if err != nil {
		t.Fatal(err)
	}
	runtime, err := json.Marshal(map[string]any{"portMappings": list[0].PortMappings, "bandwidth": list[0].Bandwidth})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"bandwidth":{"egressRate":5,"egressBurst":6},"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"},{"hostPort":53,"containerPort":53,"protocol":"udp","hostIP":"192.0.2.1"}]}`
	if diff := cmp.Diff(want, string(runtime)); diff != "" {
		t.Errorf("runtime configuration (-want +got):\n%s", diff)
	}
	if got := fmt.Sprint(list[0].IPs); got != "[10.0.0.2/24 fd00::2]" {
		t.Errorf("IPs are %s", got)
	}
}

// writeNetworks writes selections as users do, with all values.
func writeNetworks(list []annotations.NetworkSelection) (string, error) {
	elements := []map[string]any{}
	for _, one := range list {
		element := map[string]any{
			"name":            one.Name,
			"namespace":       one.Namespace,
			"interface":       one.Interface,
			"mac":             one.MAC,
			"infiniband-guid": one.GUID,
			"deviceID":        one.DeviceID,
		}
		for _, key := range one.Foreign {
			element[key] = "x"
		}
		var ips []string
		for _, ip := range one.IPs {
			ips = append(ips, ip.String())
		}
		if ips != nil {
			element["ips"] = ips
		}
		if one.CNIArgs != nil {
			element["cni-args"] = one.CNIArgs
		}
		if one.PortMappings != nil {
			element["portMappings"] = one.PortMappings
		}
		if one.Bandwidth != (annotations.Bandwidth{}) {
			element["bandwidth"] = one.Bandwidth
		}
		if one.DefaultRoute {
			element["default-route"] = append([]netip.Addr{}, one.Gateways...)
		}
		elements = append(elements, element)
	}
	raw, err := json.Marshal(elements)
	return string(raw), err
}

// FuzzParseNetworks looks for a panic, for two interfaces with one name, and for an
// accepted text whose meaning changes when it is written out and read again.
func FuzzParseNetworks(f *testing.F) {
	for _, seed := range []string{
		"", "a", "a,ns/b@x, c", "a,,b", "a/b/c", "@", "[]", "[null]", `{"name":"a"}`, `"a"`,
		`[{"name":"a","namespace":"b","interface":"x","ips":["10.0.0.1/8","fd00::1"],"mac":"02:00:00:00:00:01","cni-args":{"a":"<&>"},"deviceID":"0000:af:06.0"}]`,
		`[{"name":"a","portMappings":[{"hostPort":1,"containerPort":2,"hostIP":"::1"}],"bandwidth":{"ingressRate":1,"ingressBurst":2},"default-route":[]}]`,
		`[{"name":"a","org.foo.key":[{}]},{"name":"b","default-route":["10.0.0.1","fe80::1"],"interfaceRequest":"y"}]`,
	} {
		f.Add(seed, "pods")
	}
	f.Fuzz(func(t *testing.T, text, namespace string) {
		list, err := annotations.ParseNetworks(text, "pods")
		if err != nil {
			return
		}
		if len(list) > 64 {
			t.Fatalf("%d elements", len(list))
		}
		names := map[string]bool{"eth0": true}
		for _, one := range list {
			if names[one.Interface] || one.Interface == "" || one.Namespace == "" || strings.ContainsAny(one.Namespace+one.Name+one.Interface+one.DeviceID, "/\\ \n") {
				t.Fatalf("%q: %+v", text, one)
			}
			names[one.Interface] = true
		}
		again, err := writeNetworks(list)
		if err != nil {
			t.Fatal(err)
		}
		got, err := annotations.ParseNetworks(again, namespace)
		if err != nil {
			t.Fatalf("%q was accepted, %s isn't: %v", text, again, err)
		}
		if diff := cmp.Diff(withArgs(t, list), withArgs(t, got), equalAddrs); diff != "" {
			t.Fatalf("%q (-first +second):\n%s", text, diff)
		}
	})
}

// withArgs writes the arguments of each selection in one form, because encoding/json
// escapes some characters.
func withArgs(t *testing.T, list []annotations.NetworkSelection) []annotations.NetworkSelection {
	t.Helper()
	for i := range list {
		if list[i].CNIArgs == nil {
			continue
		}
		text, err := json.Marshal(list[i].CNIArgs)
		if err != nil {
			t.Fatal(err)
		}
		list[i].CNIArgs = text
	}
	return list
}
