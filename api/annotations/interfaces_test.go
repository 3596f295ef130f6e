// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
)

func static(ip string) annotations.AddressRequest {
	return annotations.AddressRequest{Mode: annotations.AddressStatic, IP: netip.MustParseAddr(ip)}
}

func route(dst, gateway string) netif.Route {
	return netif.Route{Dst: netip.MustParsePrefix(dst), Gateway: netip.MustParseAddr(gateway)}
}

// onDanmNet is an interface in the DanmNet n.
func onDanmNet(change func(*annotations.Interface)) []annotations.Interface {
	one := annotations.Interface{Target: annotations.Target{Kind: annotations.TargetDanmNet, Name: "n"}}
	change(&one)
	return []annotations.Interface{one}
}

func TestParseInterfaces_FormsOfDANM_Read(t *testing.T) {
	dynamic := annotations.AddressRequest{Mode: annotations.AddressDynamic}
	none := annotations.AddressRequest{Mode: annotations.AddressNone}
	tests := map[string]struct {
		text string
		want []annotations.Interface
	}{
		"no text: the default network":      {"", nil},
		"blank text: the default network":   {" \n", nil},
		"empty list: the default network":   {" [ ] ", nil},
		"a DanmNet, no address":             {`[{"network": "n"}]`, onDanmNet(func(*annotations.Interface) {})},
		"an empty text requests no address": {`[{"network": "n", "ip": "", "ip6": ""}]`, onDanmNet(func(*annotations.Interface) {})},
		"null requests no address":          {`[{"network": "n", "ip": null, "proutes": null, "vpc": null}]`, onDanmNet(func(*annotations.Interface) {})},
		"none differs from absent": {
			`[{"network": "n", "ip": "none", "ip6": "none"}]`,
			onDanmNet(func(i *annotations.Interface) { i.IP, i.IP6 = none, none }),
		},
		"dynamic, both families": {
			`[{"network": "n", "ip": "dynamic", "ip6": "dynamic"}]`,
			onDanmNet(func(i *annotations.Interface) { i.IP, i.IP6 = dynamic, dynamic }),
		},
		"static, plain": {`[{"network": "n", "ip": "192.168.1.2"}]`, onDanmNet(func(i *annotations.Interface) { i.IP = static("192.168.1.2") })},
		"static, the suffix has no effect": {
			`[{"network": "n", "ip": "192.168.1.115/32", "ip6": "2a00:8a00:a000:1193::3E:2002/64"}]`,
			onDanmNet(func(i *annotations.Interface) {
				i.IP, i.IP6 = static("192.168.1.115"), static("2a00:8a00:a000:1193::3e:2002")
			}),
		},
		"static, network address: IPAM's": {
			`[{"network": "n", "ip": "192.168.1.64/26"}]`,
			onDanmNet(func(i *annotations.Interface) { i.IP = static("192.168.1.64") }),
		},
		"an unknown network: the operator's": {`[{"network": "n"}]`, onDanmNet(func(*annotations.Interface) {})},
		"routes are sorted and masked": {
			`[{"network": "n", "proutes": {"10.20.0.5/16": "192.168.1.2", "0.0.0.0/0": "192.168.1.1"}, "proutes6": {"FD00::1/8": "fe80::1"}}]`,
			onDanmNet(func(i *annotations.Interface) {
				i.Routes = []netif.Route{route("0.0.0.0/0", "192.168.1.1"), route("10.20.0.0/16", "192.168.1.2"), route("fd00::/8", "fe80::1")}
			}),
		},
		"the document's pod": {
			`[{"clusterNetwork":"external","ip":"10.100.1.101","ip6":"none","proutes":{"10.10.1.0/24":"10.100.1.1"}},{"tenantNetwork":"internal","ip":"dynamic"}]`,
			[]annotations.Interface{
				{
					Target: annotations.Target{Kind: annotations.TargetClusterNetwork, Name: "external"},
					IP:     static("10.100.1.101"),
					IP6:    none,
					Routes: []netif.Route{route("10.10.1.0/24", "10.100.1.1")},
				},
				{Target: annotations.Target{Kind: annotations.TargetTenantNetwork, Name: "internal"}, IP: dynamic},
			},
		},
		"one network twice": {
			`[{"network": "n"}, {"network": "n"}]`,
			append(onDanmNet(func(*annotations.Interface) {}), onDanmNet(func(*annotations.Interface) {})...),
		},
		"a VPC": {
			`[{"vpc": "blue", "ip": "dynamic"}, {"vpc": "blue", "subnet": "customer-a.net1"}]`,
			[]annotations.Interface{
				{Target: annotations.Target{Kind: annotations.TargetVPC, Name: "blue"}, IP: dynamic},
				{Target: annotations.Target{Kind: annotations.TargetVPC, Name: "blue", Subnet: "customer-a.net1"}},
			},
		},
	}
	for name, test := range tests {
		got, err := annotations.ParseInterfaces(test.text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, got, equalAddrs, equalPrefixes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestParseInterfaces_JSONError_BeginsWithPlace: people write the annotation on many lines.
func TestParseInterfaces_JSONError_BeginsWithPlace(t *testing.T) {
	for name, c := range map[string]struct{ text, begin string }{
		"a missing comma":         {"[\n  {\"network\": \"ä\" \"ip\": \"dynamic\"}\n]", `line 2, column 19: invalid character '"' after object key:value pair`},
		"an early end":            {"[\n  {\"network\": \"n\"", `line 2, column 17: unexpected end of JSON input`},
		"text behind the list":    {"[]\n[]", `line 2, column 1: invalid character '['`},
		"an unknown key":          {"[{\"network\": \"n\"},\n {\"network\": \"n\",\n  \"mac\": {\"a\": [1]}}]", `line 3, column 3: unknown field "[1].mac"`},
		"a key in a nested value": {"[{\"network\": \"n\", \"proutes\": {\"a\": \"b\",\n \"a\": \"c\"}}]", `line 2, column 2: duplicate field "[0].proutes.a"`},
		"a value of another type": {"[{\"network\":\n  17}]", `line 2, column 4: "network" has a value of the wrong type`},
		"no list":                 {"\n  internal", `line 2, column 3: it does not start with '['`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := annotations.ParseInterfaces(c.text)
			if err == nil || !strings.HasPrefix(err.Error(), c.begin) || !strings.Contains(err.Error(), "; want a JSON list such as [{") {
				t.Errorf("got %v, want %s", err, c.begin)
			}
		})
	}
}

func TestParseInterfaces_WrongText_RefusedWithCause(t *testing.T) {
	elements := func(n int) string { return "[" + strings.Repeat(`{"network":"n"},`, n-1) + `{"network":"n"}]` }
	tests := map[string]struct{ text, cause string }{
		"no JSON":                      {"internal", "want a JSON list such as [{"},
		"JSON that ends too early":     {`[{"network": "n"`, "unexpected end"},
		"an object in place of a list": {`{"network": "n"}`, "'['"},
		"null in place of a list":      {`null`, "'['"},
		"text behind the list":         {`[{"network": "n"}] []`, "after top-level value"},
		"an element null":              {`[{"network": "n"}, null]`, "element 1 is null"},
		"an element of another type":   {`["n"]`, "an object has to be where it has a string"},
		"no network":                   {`[{"ip": "dynamic"}]`, "names 0 networks"},
		"an empty network name":        {`[{"network": ""}]`, "names 0 networks"},
		"two networks":                 {`[{"network": "n", "clusterNetwork": "n"}]`, "names 2 networks"},
		"a network and a VPC":          {`[{"network": "n", "vpc": "blue"}]`, "names 2 networks"},
		"four networks":                {`[{"network": "n", "clusterNetwork": "n", "tenantNetwork": "n", "vpc": "blue"}]`, "names 4 networks"},
		"an unknown key":               {`[{"network": "n", "mac": "02:00:00:00:00:01"}]`, `unknown field "[0].mac"`},
		"a misspelled key":             {`[{"network": "n", "proute": {}}]`, `unknown field "[0].proute"`},
		"a key in another case":        {`[{"Network": "n"}]`, `unknown field "[0].Network"`},
		"an internal field of DANM":    {`[{"network": "n", "DefaultIfaceName": "eth0"}]`, `unknown field`},
		"another one":                  {`[{"network": "n", "Device": "0000:af:06.0"}]`, `unknown field`},
		"a key twice":                  {`[{"network": "n", "network": "m"}]`, `duplicate field "[0].network"`},
		"a route twice":                {`[{"network": "n", "proutes": {"10.0.0.0/8": "10.0.0.1", "10.0.0.0/8": "10.0.0.2"}}]`, "duplicate field"},
		"a name of another type":       {`[{"network": 1}]`, `"network" has a value of the wrong type (number)`},
		"another namespace":            {`[{"network": "other/n"}]`, `network "other/n" is no object name`},
		"a path":                       {`[{"tenantNetwork": "../../etc"}]`, "is no object name"},
		"a name in upper case":         {`[{"network": "N"}]`, "is no object name"},
		"a name with an empty part":    {`[{"network": "a..b"}]`, "is no object name"},
		"a name with a newline":        {`[{"network": "n\n"}]`, "is no object name"},
		"a name that is too long":      {`[{"network": "` + strings.Repeat("n", 254) + `"}]`, "is no object name"},
		"a VPC with a dot":             {`[{"vpc": "6f1c.net"}]`, "is no object name"},
		"a subnet without VPC":         {`[{"network": "n", "subnet": "s"}]`, `"subnet" is for "vpc" only`},
		"a subnet with a slash":        {`[{"vpc": "blue", "subnet": "a/s"}]`, `subnet "a/s" is no object name`},
		"a mode in another case":       {`[{"network": "n", "ip": "Dynamic"}]`, `write "dynamic", "none" or an address`},
		"static as a mode":             {`[{"network": "n", "ip": "static"}]`, `ip: "static" is no unicast`},
		"an address that is none":      {`[{"network": "n", "ip": "hululululu"}]`, `ip: "hululululu" is no unicast`},
		"an IPv6 address that is none": {`[{"network": "n", "ip6": "2a00:8a00:a000:1193:hulu:lulu:lulu:lulu/64"}]`, "ip6: "},
		"a prefix length that is none": {`[{"network": "n", "ip": "192.168.1.2/33"}]`, "prefix length from 1 to 32"},
		"a prefix length of zero":      {`[{"network": "n", "ip6": "fd00::2/0"}]`, "prefix length from 1 to 128"},
		"an empty prefix length":       {`[{"network": "n", "ip": "192.168.1.2/"}]`, "prefix length"},
		"the name of a ReservedIP": {
			`[{"clusterNetwork": "n", "ip": "my-reserved-ip"}]`,
			`ip: "my-reserved-ip" is no unicast IPv4 or IPv6 address; write "dynamic", "none" or an address`,
		},
		"IPv6 as ip":                    {`[{"network": "n", "ip": "fd00::2"}]`, "no IPv4 address"},
		"IPv4 as ip6":                   {`[{"network": "n", "ip6": "192.168.1.2/24"}]`, "no IPv6 address"},
		"IPv4 inside of IPv6":           {`[{"network": "n", "ip6": "::ffff:192.168.1.2"}]`, "no unicast"},
		"an address with a zone":        {`[{"network": "n", "ip6": "fe80::1%eth0"}]`, "no unicast"},
		"an address of multicast":       {`[{"network": "n", "ip": "239.0.0.50"}]`, "no unicast"},
		"the unspecified address":       {`[{"network": "n", "ip": "0.0.0.0"}]`, "no unicast"},
		"a loopback address":            {`[{"network": "n", "ip": "127.0.0.1"}]`, "no unicast"},
		"two addresses":                 {`[{"network": "n", "ip": "10.0.0.1,10.0.0.2"}]`, "no unicast"},
		"a destination that is none":    {`[{"network": "n", "proutes": {"ten": "10.0.0.1"}}]`, `proutes: "ten" to "10.0.0.1": the destination is no IPv4 range`},
		"a destination without length":  {`[{"network": "n", "proutes": {"10.10.1.0": "10.0.0.1"}}]`, "no IPv4 range"},
		"a destination of IPv6":         {`[{"network": "n", "proutes": {"fd00::/8": "10.0.0.1"}}]`, "no IPv4 range"},
		"a destination of IPv4":         {`[{"network": "n", "proutes6": {"10.0.0.0/8": "fd00::1"}}]`, "no IPv6 range such as fd10"},
		"a destination IPv4 in IPv6":    {`[{"network": "n", "proutes6": {"::ffff:10.0.0.0/104": "fd00::1"}}]`, "no IPv6 range"},
		"a gateway that is none":        {`[{"network": "n", "proutes": {"10.0.0.0/8": "gw"}}]`, "the gateway is no IPv4 address"},
		"a gateway with a length":       {`[{"network": "n", "proutes": {"10.0.0.0/8": "10.0.0.1/24"}}]`, "the gateway is no"},
		"a gateway of the other family": {`[{"network": "n", "proutes6": {"fd00::/8": "10.0.0.1"}}]`, "the gateway is no IPv6 address"},
		"a gateway null":                {`[{"network": "n", "proutes": {"10.0.0.0/8": null}}]`, "the gateway is no"},
		"two routes to one range": {
			`[{"network": "n", "proutes": {"10.0.0.0/8": "10.0.0.1", "10.1.0.0/8": "10.0.0.2"}}]`,
			"another entry leads to 10.0.0.0/8 too",
		},
		"routes as a list":        {`[{"network": "n", "proutes": ["10.0.0.0/8"]}]`, `"proutes" has a value of the wrong type (array)`},
		"routes in a VPC":         {`[{"vpc": "blue", "proutes": {"10.0.0.0/8": "10.0.0.1"}}]`, "a VPC has no routing table"},
		"65 interfaces":           {elements(65), "65 elements, and at most 64"},
		"a text that is too long": {"[" + strings.Repeat(" ", 64<<10) + "]", "at most 65536 are accepted, because"},
	}
	for name, test := range tests {
		got, err := annotations.ParseInterfaces(test.text)
		if err == nil {
			t.Errorf("%s: accepted as %+v", name, got)
		} else if !strings.Contains(err.Error(), test.cause) {
			t.Errorf("%s: error is %q, want it to contain %q", name, err, test.cause)
		}
	}
	if got, err := annotations.ParseInterfaces(elements(64)); err != nil || len(got) != 64 {
		t.Errorf("64 interfaces: %d, %v", len(got), err)
	}
}

func TestParseInterfaces_SeveralErrors_StableOrder(t *testing.T) {
	const text = `[{"network": "n"}, {"network": "n", "ip": "x", "ip6": "10.0.0.1", "proutes": {"b": "10.0.0.1", "a": "10.0.0.1", "10.0.0.0/8": "c"}}]`
	_, first := annotations.ParseInterfaces(text)
	if first == nil {
		t.Fatal("accepted")
	}
	at := -1
	for _, part := range []string{"element 1: ip: \"x\"", `ip6: "10.0.0.1"`, `proutes: "10.0.0.0/8" to "c"`, `proutes: "a" to`, `proutes: "b" to`} {
		next := strings.Index(first.Error(), part)
		if next <= at {
			t.Errorf("%q is missing, or not in order, in:\n%v", part, first)
		}
		at = next
	}
	for range 20 {
		if _, err := annotations.ParseInterfaces(text); err == nil || err.Error() != first.Error() {
			t.Fatalf("error changes from %q to %q", first, err)
		}
	}
}

func TestInterfacesOf_BothKeys_OneTextOrRefused(t *testing.T) {
	const old, newer = annotations.InterfacesKey, annotations.InterfacesKeyIO
	for name, test := range map[string]struct {
		annotations map[string]string
		text, key   string
	}{
		"none":                       {nil, "", ""},
		"the old key":                {map[string]string{old: "[]"}, "[]", old},
		"the new key":                {map[string]string{newer: "[]"}, "[]", newer},
		"both with one text":         {map[string]string{old: "[]", newer: "[]"}, "[]", old},
		"an empty text is a request": {map[string]string{newer: ""}, "", newer},
		"keys that contain the key":  {map[string]string{"x." + old: "[]", newer + "-1": "[]", "DANM.io/interfaces": "[]"}, "", ""},
	} {
		text, key, err := annotations.InterfacesOf(test.annotations)
		if err != nil || text != test.text || key != test.key {
			t.Errorf("%s: got %q of %q, %v, want %q of %q", name, text, key, err, test.text, test.key)
		}
	}
	for _, texts := range [][2]string{{"[]", "[ ]"}, {"", "[]"}, {"[]", ""}} {
		text, key, err := annotations.InterfacesOf(map[string]string{old: texts[0], newer: texts[1]})
		if err == nil || text != "" || key != "" {
			t.Errorf("%q: got %q of %q, %v, want an error", texts, text, key, err)
		}
	}
}

func TestInterfaceNames_Prefixes_NamesOrRefused(t *testing.T) {
	for name, test := range map[string]struct {
		prefixes []string
		legacy   bool
		want     []string
	}{
		"none":                         {nil, false, nil},
		"the first is eth0":            {[]string{"int"}, false, []string{"eth0"}},
		"the first is eth0, legacy":    {[]string{"int"}, true, []string{"eth0"}},
		"a prefix nobody sees":         {[]string{"no/name at all"}, false, []string{"eth0"}},
		"prefix and index":             {[]string{"ext", "int", "", "int"}, false, []string{"eth0", "int1", "eth2", "int3"}},
		"prefix alone, legacy":         {[]string{"ext", "int", "", "mgmt"}, true, []string{"eth0", "int", "eth2", "mgmt"}},
		"the prefix of all":            {[]string{"eth", "eth", "eth"}, false, []string{"eth0", "eth1", "eth2"}},
		"15 characters with the index": {[]string{"", "abcdefghijklmn"}, false, []string{"eth0", "abcdefghijklmn1"}},
		"15 characters, legacy":        {[]string{"", "abcdefghijklmno"}, true, []string{"eth0", "abcdefghijklmno"}},
		"a reserved name is a prefix":  {[]string{"", "lo"}, false, []string{"eth0", "lo1"}},
		"one network more than once":   {[]string{"net", "net", "net"}, false, []string{"eth0", "net1", "net2"}},
	} {
		got, err := annotations.InterfaceNames(test.prefixes, test.legacy)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	eleven := append([]string{"", "a1"}, make([]string, 10)...)
	eleven[11] = "a"
	for name, test := range map[string]struct {
		prefixes []string
		legacy   bool
		cause    string
	}{
		"one prefix twice, legacy":     {[]string{"", "int", "int"}, true, "interfaces 1 and 2 would both have the name int"},
		"eth0 again, legacy":           {[]string{"", "eth0"}, true, "interfaces 0 and 1"},
		"a default's name, legacy":     {[]string{"", "eth2", ""}, true, "interfaces 1 and 2 would both have the name eth2"},
		"prefixes that meet":           {eleven, false, "interfaces 1 and 11 would both have the name a11"},
		"16 characters with the index": {[]string{"", "abcdefghijklmno"}, false, "is no interface name"},
		"16 characters, legacy":        {[]string{"", "abcdefghijklmnop"}, true, "is no interface name"},
		"a slash":                      {[]string{"", "a/b"}, false, `interface 1, container_prefix: "a/b1"`},
		"a blank":                      {[]string{"", "a b"}, false, "is no interface name"},
		"a newline":                    {[]string{"", "a\n"}, true, "is no interface name"},
		"a verb of the kernel":         {[]string{"", "a%d"}, true, "is no interface name"},
		"dots, legacy":                 {[]string{"", ".."}, true, "is no interface name"},
		"a dash in front":              {[]string{"", "-a"}, false, "is no interface name"},
		"the loopback device, legacy":  {[]string{"", "lo"}, true, "reserved"},
		"all sysctls, legacy":          {[]string{"", "all"}, true, "reserved"},
		"default sysctls, legacy":      {[]string{"", "default"}, true, "reserved"},
	} {
		got, err := annotations.InterfaceNames(test.prefixes, test.legacy)
		if err == nil {
			t.Errorf("%s: accepted as %v", name, got)
		} else if !strings.Contains(err.Error(), test.cause) {
			t.Errorf("%s: error is %q, want it to contain %q", name, err, test.cause)
		}
	}
}

// writeInterfaces writes interfaces as users do.
func writeInterfaces(list []annotations.Interface) (string, error) {
	keys := map[string]string{
		annotations.TargetDanmNet: "network", annotations.TargetTenantNetwork: "tenantNetwork",
		annotations.TargetClusterNetwork: "clusterNetwork", annotations.TargetVPC: "vpc",
	}
	text := func(request annotations.AddressRequest) string {
		if request.Mode == annotations.AddressStatic {
			return request.IP.String()
		}
		return string(request.Mode)
	}
	elements := []map[string]any{}
	for _, one := range list {
		routes := map[string]map[string]string{"proutes": {}, "proutes6": {}}
		for _, route := range one.Routes {
			key := "proutes6"
			if route.Dst.Addr().Is4() {
				key = "proutes"
			}
			routes[key][route.Dst.String()] = route.Gateway.String()
		}
		elements = append(elements, map[string]any{
			keys[one.Kind]: one.Name, "subnet": one.Subnet, "ip": text(one.IP), "ip6": text(one.IP6),
			"proutes": routes["proutes"], "proutes6": routes["proutes6"],
		})
	}
	raw, err := json.Marshal(elements)
	return string(raw), err
}

// FuzzParseInterfaces looks for a panic, and for an accepted text whose meaning changes
// when it is written out and read again.
func FuzzParseInterfaces(f *testing.F) {
	for _, seed := range []string{
		"", "[]", "null", `[null]`, `[{}]`,
		`[{"network":"n","ip":"dynamic","ip6":"none"},{"tenantNetwork":"t","ip":"10.0.0.1/8","ip6":"fd00::1"}]`,
		`[{"clusterNetwork":"c","proutes":{"10.0.0.0/8":"10.0.0.1","0.0.0.0/0":"10.0.0.2"},"proutes6":{"::/0":"fe80::1"}}]`,
		`[{"vpc":"v","subnet":"s","network":""}]`, `[{"network":"n","ip6":"::ffff:1.2.3.4"}]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := annotations.ParseInterfaces(text)
		if err != nil {
			return
		}
		if len(list) > 64 {
			t.Fatalf("%d elements", len(list))
		}
		for _, one := range list {
			if !one.IP.IP.Is4() && one.IP.IP.IsValid() || one.IP6.IP.Is4() {
				t.Fatalf("%q: families are mixed: %+v", text, one)
			}
		}
		again, err := writeInterfaces(list)
		if err != nil {
			t.Fatal(err)
		}
		got, err := annotations.ParseInterfaces(again)
		if err != nil {
			t.Fatalf("%q was accepted, %s isn't: %v", text, again, err)
		}
		if diff := cmp.Diff(list, got, equalAddrs, equalPrefixes); diff != "" {
			t.Fatalf("%q (-first +second):\n%s", text, diff)
		}
	})
}

// FuzzInterfaceNames looks for a name that is unsafe, too long or used twice.
func FuzzInterfaceNames(f *testing.F) {
	f.Add("int", "", "eth", true)
	f.Add("a1", "../x", "%d", false)
	f.Fuzz(func(t *testing.T, a, b, c string, legacy bool) {
		names, err := annotations.InterfaceNames([]string{a, b, c, a}, legacy)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, name := range names {
			if len(name) > 15 || name == "" || strings.ContainsAny(name, "/: \t\n%") || strings.HasPrefix(name, ".") || seen[name] {
				t.Fatalf("names %q", names)
			}
			seen[name] = true
		}
		if names[0] != "eth0" {
			t.Fatalf("the first name is %q", names[0])
		}
	})
}
