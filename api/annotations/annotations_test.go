// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/annotations"
)

var (
	equalAddrs    = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	equalPrefixes = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
)

func addrs(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

func TestParseNIC_DocumentedForms_Read(t *testing.T) {
	tests := map[string]annotations.NIC{
		"":                                     {},
		"  ":                                   {},
		"{}":                                   {},
		`{"name": "eth0"}`:                     {Name: "eth0"},
		`{"name": "", "ip": "", "subnet": ""}`: {},
		`{"subnet": "net1"}`:                   {Subnet: "net1"},
		`{"subnet": "customer-a.net1"}`:        {Subnet: "customer-a.net1"},
		`{"ip": "10.10.1.12"}`:                 {IPs: addrs("10.10.1.12")},
		`{"ip": "fd10::12,10.10.1.12"}`:        {IPs: addrs("fd10::12", "10.10.1.12")},
		`{"ip": "10.10.1.12, FD10:0::12"}`:     {IPs: addrs("10.10.1.12", "fd10::12")},
		" {\"ip\": \"10.10.1.12\",\n\"name\":\"a\"} ": {Name: "a", IPs: addrs("10.10.1.12")},
	}
	for text, want := range tests {
		got, err := annotations.ParseNIC(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got, equalAddrs); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestParseNIC_AmbiguousText_Refused(t *testing.T) {
	for _, text := range []string{
		"eth0", "null", "[]", `"{}"`, `{"ip": }`, `{"ip": "10.10.1.12"`, `{} {}`, `{}x`,
		`{"ipAddress": "10.10.1.12"}`, `{"IP": "10.10.1.12"}`, `{"ip": "10.10.1.12", "ip": "10.10.1.13"}`, `{"ip": 10}`, `{"ip": ["10.10.1.12"]}`,
		`{"ip": "10.10.1"}`, `{"ip": "10.10.1.12/24"}`, `{"ip": "10.10.1.12,"}`, `{"ip": "010.10.1.12"}`,
		`{"ip": "10.10.1.12,10.10.1.13"}`, `{"ip": "fe80::1%eth0"}`, `{"ip": "::ffff:10.10.1.12"}`,
		`{"name": "an-interface-name"}`, `{"name": "a/b"}`, `{"name": ".."}`, `{"name": "a b"}`,
		`{"subnet": "Net1"}`, `{"subnet": "-net"}`, `{"subnet": "a/b"}`,
	} {
		if got, err := annotations.ParseNIC(text); err == nil {
			t.Errorf("%s: accepted as %+v", text, got)
		}
	}
}

func TestParseNIC_Error_ShowsExample(t *testing.T) {
	_, err := annotations.ParseNIC("{ip: 10.10.1.12}")
	if err == nil || !strings.Contains(err.Error(), `{"name": "eth0", "ip": "10.10.1.12", "subnet": "net1"}`) {
		t.Errorf("error %v doesn't show an example", err)
	}
}

func TestFormatUserInput_Values_DocumentedText(t *testing.T) {
	got := annotations.FormatUserInput(annotations.UserInput{VPC: "vpc-1", Net: "net1", IP: "10.10.1.12"})
	if want := `{"vpc": "vpc-1", "net": "net1", "ip": "10.10.1.12"}`; got != want {
		t.Errorf("text is %s, want %s", got, want)
	}
}

// FuzzParseNIC looks for a panic, and for an accepted text whose meaning
// changes when it is written out and read again.
func FuzzParseNIC(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"name":"eth0","ip":"10.10.1.12,fd10::1","subnet":"net1"}`, `{"ip":"::ffff:1.2.3.4"}`, "{]", `{"ip":null}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		nic, err := annotations.ParseNIC(text)
		if err != nil {
			return
		}
		var ips []string
		families := map[bool]int{}
		for _, ip := range nic.IPs {
			ips = append(ips, ip.String())
			families[ip.Is4()]++
		}
		if families[true] > 1 || families[false] > 1 {
			t.Fatalf("%q: more than one address of a family: %v", text, nic.IPs)
		}
		again, err := json.Marshal(map[string]string{"name": nic.Name, "subnet": nic.Subnet, "ip": strings.Join(ips, ",")})
		if err != nil {
			t.Fatal(err)
		}
		got, err := annotations.ParseNIC(string(again))
		if err != nil {
			t.Fatalf("%q was accepted, %s isn't: %v", text, again, err)
		}
		if diff := cmp.Diff(nic, got, equalAddrs); diff != "" {
			t.Fatalf("%q (-first +second):\n%s", text, diff)
		}
	})
}

// FuzzFormatUserInput looks for a name that breaks the JSON.
func FuzzFormatUserInput(f *testing.F) {
	f.Add("vpc-1", "net1", "10.10.1.12")
	f.Add(`"`, "\\", "\x00<>&\u2028")
	f.Fuzz(func(t *testing.T, vpc, net, ip string) {
		want := annotations.UserInput{VPC: vpc, Net: net, IP: ip}
		text := annotations.FormatUserInput(want)
		var got annotations.UserInput
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%s is no JSON: %v", text, err)
		}
		if !utf8.ValidString(vpc) || !utf8.ValidString(net) || !utf8.ValidString(ip) {
			return // JSON replaces bytes that are not UTF-8
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("read back (-want +got):\n%s", diff)
		}
	})
}
