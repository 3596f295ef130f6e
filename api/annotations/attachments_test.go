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

func TestFormatAttachments_InVPC_StableText(t *testing.T) {
	text, err := annotations.FormatAttachments([]netif.Interface{{
		Name: "eth0", Kind: "veth", VPC: "vpc-1", Subnet: "net1", MAC: "02:00:0a:0a:01:0c",
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.10.1.12/24")}, Gateways: addrs("10.10.1.1"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"name":"eth0","kind":"veth","vpc":"vpc-1","subnet":"net1","addresses":["10.10.1.12/24"],"gateways":["10.10.1.1"],"mac":"02:00:0a:0a:01:0c"}]`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestParseAttachments_UnknownKeys_Accepted(t *testing.T) {
	got, err := annotations.ParseAttachments(
		`[{"name":"eth0","kind":"veth","vpc":"v","subnet":"s","addresses":["fd00::2/64"],"mac":"06:00:00:00:00:01","queues":4}]`,
	)
	if err != nil {
		t.Fatal(err)
	}
	want := []netif.Interface{{
		Name: "eth0", Kind: "veth", VPC: "v", Subnet: "s", MAC: "06:00:00:00:00:01",
		Addresses: []netip.Prefix{netip.MustParsePrefix("fd00::2/64")},
	}}
	if diff := cmp.Diff(want, got, equalAddrs, equalPrefixes); diff != "" {
		t.Errorf("attachments (-want +got):\n%s", diff)
	}
}

func TestParseAttachments_NotList_Refused(t *testing.T) {
	for _, text := range []string{"", "{}", "[", "[] []", `[{"addresses":["10.0.0.1"]}]`, `[{"gateways":["x"]}]`} {
		if got, err := annotations.ParseAttachments(text); err == nil {
			t.Errorf("%q: accepted as %+v", text, got)
		}
	}
}

// outside is an attachment with each key of an interface outside of every VPC.
func outside() netif.Interface {
	return netif.Interface{
		Name: "net1", Kind: "macvlan", Outside: "DanmNet/customer-a/internal", OutsideUID: "6f1c",
		Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.1.65/26")},
		MAC:       "0a:00:00:00:00:01",
		Link: &netif.Config{
			Parent: "ens4", Mode: "bridge", VLAN: 300, VXLAN: 50, MTU: 1450, IPv6: "off",
			Routes: []netif.Route{
				{Dst: netip.MustParsePrefix("10.0.1.0/24"), Gateway: netip.MustParseAddr("192.168.1.66"), Table: 200},
				{Dst: netip.MustParsePrefix("10.0.2.0/24")},
			},
			Rules: []netif.Rule{{From: netip.MustParsePrefix("192.168.1.65/32"), Table: 200}},
		},
	}
}

func TestFormatAttachments_OutsideVPCs_StableText(t *testing.T) {
	text, err := annotations.FormatAttachments([]netif.Interface{outside()})
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"name":"net1","kind":"macvlan","vpc":"","outside":"DanmNet/customer-a/internal","outsideUID":"6f1c","subnet":"",` +
		`"addresses":["192.168.1.65/26"],"mac":"0a:00:00:00:00:01","link":{"parent":"ens4","mode":"bridge","vlan":300,"vxlan":50,"mtu":1450,"ipv6":"off",` +
		`"routes":[{"dst":"10.0.1.0/24","gw":"192.168.1.66","table":200},{"dst":"10.0.2.0/24"}],"rules":[{"from":"192.168.1.65/32","table":200}]}}]`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	got, err := annotations.ParseAttachments(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]netif.Interface{outside()}, got, equalAddrs, equalPrefixes); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
}

func TestParseAttachments_TooMany_Refused(t *testing.T) {
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("{},", n), ",") + "]" }
	if _, err := annotations.ParseAttachments(list(129)); err != nil {
		t.Errorf("129 attachments: %v", err)
	}
	if _, err := annotations.ParseAttachments(list(130)); err == nil || !strings.Contains(err.Error(), "at most 129") {
		t.Errorf("130 attachments: %v", err)
	}
}

func TestElementHash_SameMeaning_SameHash(t *testing.T) {
	const element = `{"name":"net1","link":{"vlan":300}}`
	// Written down, because claims outlive the version that makes them.
	const want = "6e9cabace6837ec694ecde619455b8be4659ee8f3f1907a01ab8595d056bc867"
	for name, test := range map[string]struct {
		element string
		same    bool
	}{
		"the element":           {element, true},
		"blanks between tokens": {" { \"name\" : \"net1\",\n\t\"link\":{\"vlan\":300} } ", true},
		"another VLAN":          {`{"name":"net1","link":{"vlan":301}}`, false},
		"an unknown key":        {`{"name":"net1","link":{"vlan":300},"queues":4}`, false},
		"a key twice":           {`{"name":"net1","link":{"vlan":300},"link":{"vlan":301}}`, false},
		"a key in another case": {`{"name":"net1","link":{"vlan":300},"LINK":{"vlan":301}}`, false},
		"other order":           {`{"link":{"vlan":300},"name":"net1"}`, false},
		"blank inside a string": {`{"name":"net1 ","link":{"vlan":300}}`, false},
		"an escaped character":  {`{"name":"net\u0031","link":{"vlan":300}}`, false},
		"no JSON":               {`{"name":"net1","link":{"vlan":300}`, false},
		"nothing":               {``, false},
	} {
		got := annotations.ElementHash(json.RawMessage(test.element))
		if len(got) != 64 {
			t.Errorf("%s: hash %q has not 64 digits", name, got)
		}
		if (got == want) != test.same {
			t.Errorf("%s: hash is %s, want the same as of the element (%s): %v", name, got, want, test.same)
		}
	}
}

func TestParseAttachmentsHashed_Text_HashesOfAttachments(t *testing.T) {
	inside := netif.Interface{Name: "eth0", Kind: "veth", VPC: "v", Subnet: "s", Network: "<a>&", MAC: "06:00:00:00:00:01"}
	list := []netif.Interface{inside, outside()}
	text, err := annotations.FormatAttachments(list)
	if err != nil {
		t.Fatal(err)
	}
	got, err := annotations.ParseAttachmentsHashed(text)
	if err != nil {
		t.Fatal(err)
	}
	for i, attachment := range list {
		want, err := annotations.AttachmentHash(attachment)
		if err != nil {
			t.Fatal(err)
		}
		if got[i].Hash != want {
			t.Errorf("%s: hash of the text is %s, want %s", attachment.Name, got[i].Hash, want)
		}
	}
}

func TestParseAttachmentsHashed_UnknownKey_HashDiffers(t *testing.T) {
	text, err := annotations.FormatAttachments([]netif.Interface{outside()})
	if err != nil {
		t.Fatal(err)
	}
	forged := strings.Replace(text, `"link":{`, `"link":{"promiscuous":true,`, 1)
	honest, err := annotations.ParseAttachmentsHashed(text)
	if err != nil {
		t.Fatal(err)
	}
	got, err := annotations.ParseAttachmentsHashed(forged)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(honest[0].Interface, got[0].Interface, equalAddrs, equalPrefixes); diff != "" {
		t.Errorf("attachment (-want +got):\n%s", diff)
	}
	if got[0].Hash == honest[0].Hash {
		t.Error("the hash is the same with a key more")
	}
}

// FuzzAttachments looks for a panic in reading, for a list that isn't the same after it
// was written and read, and for a hash of the text that isn't the attachment's.
func FuzzAttachments(f *testing.F) {
	f.Add(
		`[{"name":"eth0","altName":"web","kind":"veth","network":"a/b","vpc":"v","subnet":"s","addresses":["10.0.0.2/24","fd00::2/64"],"gateways":["10.0.0.1","fd00::1"],"mac":"02:00:0a:00:00:02"}]`,
	)
	f.Add(
		`[{"name":"net1","kind":"macvlan","vpc":"","outside":"DanmNet/a/n","outsideUID":"u","subnet":"","addresses":null,"mac":"","link":{"parent":"ens4","vlan":300,"ipv6":"off","routes":[{"dst":"10.0.0.0/8","gw":"10.0.0.1","table":200},{"dst":"","gw":""}],"rules":[{"from":"10.0.0.1/32","table":200}]}}]`,
	)
	f.Add(`[{"link":null},{"link":{}},null]`)
	f.Add(`[]`)
	f.Add(`null`)
	f.Add(`[{}, {"addresses":["::ffff:1.2.3.4/96"],"gateways":["fe80::1%a"]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		list, err := annotations.ParseAttachments(text)
		if err != nil {
			return
		}
		again, err := annotations.FormatAttachments(list)
		if err != nil {
			t.Fatal(err)
		}
		got, err := annotations.ParseAttachments(again)
		if err != nil {
			t.Fatalf("%q was accepted, %s isn't: %v", text, again, err)
		}
		third, err := annotations.FormatAttachments(got)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(again, third); diff != "" {
			t.Fatalf("text changes when written again (-first +second):\n%s", diff)
		}
		checkHashes(t, list, again)
	})
}

// checkHashes compares the hashes of a text with the hashes of the attachments that the text
// was made from.
func checkHashes(t *testing.T, list []netif.Interface, text string) {
	t.Helper()
	read, err := annotations.ParseAttachmentsHashed(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if len(read) != len(list) {
		t.Fatalf("%s: %d attachments, want %d", text, len(read), len(list))
	}
	for i, attachment := range list {
		want, err := annotations.AttachmentHash(attachment)
		if err != nil {
			t.Fatal(err)
		}
		if read[i].Hash != want {
			t.Fatalf("%s: hash %d is %s, want %s", text, i, read[i].Hash, want)
		}
	}
}
