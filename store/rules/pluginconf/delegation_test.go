// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pluginconf

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/cniconf"
	"github.com/alioth-net/alioth/api/ipamconf"
)

// granted are the types in most tests.
var granted = Allowed{Plugins: []string{"bridge", "tuning", "flannel"}, IPAM: []string{"host-local"}}

func request(text string) Request {
	return Request{Where: "NetworkAttachmentDefinition a/storage, spec.config", Name: "storage", Text: []byte(text), Allowed: granted}
}

func TestBuild_Configuration_BecomesList(t *testing.T) {
	fixed := &IPAM{Addresses: []ipamconf.Address{
		{Address: netip.MustParsePrefix("192.0.2.7/24"), Gateway: netip.MustParseAddr("192.0.2.1")},
		{Address: netip.MustParsePrefix("2001:db8::7/64")},
	}, Routes: []ipamconf.Route{{Dst: netip.MustParsePrefix("198.51.100.0/24"), Gateway: netip.MustParseAddr("192.0.2.1")}}}
	const injected = `{"type":"alioth-ipam","addresses":[{"address":"192.0.2.7/24","gateway":"192.0.2.1"},{"address":"2001:db8::7/64"}],` +
		`"routes":[{"dst":"198.51.100.0/24","gw":"192.0.2.1"}]}`
	cases := map[string]struct {
		text string
		edit func(*Request)
		want string
	}{
		"a single configuration without a name gets that of the object (NPWG 1.1: the name MUST be injected)": {
			text: `{"cniVersion":"1.0.0","type":"bridge","mtu":1400}`,
			want: `{"cniVersion":"1.0.0","name":"storage","plugins":[{"cniVersion":"1.0.0","mtu":1400,"type":"bridge"}]}`,
		},
		"an empty name counts as none": {
			text: `{"cniVersion":"1.0.0","name":"","plugins":[{"type":"bridge"}]}`,
			want: `{"cniVersion":"1.0.0","name":"storage","plugins":[{"type":"bridge"}]}`,
		},
		"a list keeps its name and order": {
			text: `{"cniVersion":"0.4.0","name":"own","disableCheck":true,"plugins":[{"type":"bridge"},{"type":"tuning"}]}`,
			want: `{"cniVersion":"0.4.0","disableCheck":true,"name":"own","plugins":[{"type":"bridge"},{"type":"tuning"}]}`,
		},
		"a configuration without a version has the first one": {
			text: `{"type":"bridge"}`,
			want: `{"cniVersion":"0.1.0","name":"storage","plugins":[{"type":"bridge"}]}`,
		},
		"the highest known version is selected (CNI 1.1: cniVersions)": {
			text: `{"cniVersion":"0.4.0","cniVersions":["1.0.0","1.1.0","9.0.0"],"plugins":[{"type":"bridge"}]}`,
			want: `{"cniVersion":"1.1.0","name":"storage","plugins":[{"type":"bridge"}]}`,
		},
		"unknown fields are unchanged, large numbers too": {
			text: `{"cniVersion":"1.0.0","plugins":[{"type":"bridge","n":12345678901234567890,"x":{"y":[1.50]}}]}`,
			want: `{"cniVersion":"1.0.0","name":"storage","plugins":[{"n":12345678901234567890,"type":"bridge","x":{"y":[1.50]}}]}`,
		},
		"our addresses replace the IPAM for both families (DANM case 125)": {
			text: `{"cniVersion":"1.0.0","plugins":[{"type":"bridge","ipam":{"type":"dhcp"}},{"type":"tuning"}]}`,
			edit: func(r *Request) { r.IPAM = fixed },
			want: `{"cniVersion":"1.0.0","name":"storage","plugins":[{"ipam":` + injected + `,"type":"bridge"},{"type":"tuning"}]}`,
		},
		"a configuration without IPAM gets ours (DANM case 125)": {
			text: `{"cniVersion":"1.0.0","type":"bridge"}`,
			edit: func(r *Request) { r.IPAM = fixed },
			want: `{"cniVersion":"1.0.0","name":"storage","plugins":[{"cniVersion":"1.0.0","ipam":` + injected + `,"type":"bridge"}]}`,
		},
		"without an address of ours no IPAM is left": {
			text: `{"cniVersion":"1.0.0","plugins":[{"type":"bridge","ipam":{"type":"host-local"}}]}`,
			edit: func(r *Request) { r.IPAM = &IPAM{} },
			want: `{"cniVersion":"1.0.0","disableCheck":true,"name":"storage","plugins":[{"type":"bridge"}]}`,
		},
		"the author's IPAM stays where none is ours (DANM case 125)": {
			text: `{"cniVersion":"1.0.0","plugins":[{"type":"bridge","ipam":{"type":"host-local"}}]}`,
			want: `{"cniVersion":"1.0.0","name":"storage","plugins":[{"ipam":{"type":"host-local"},"type":"bridge"}]}`,
		},
		"cni-args are merged, and the pod's value has precedence (NPWG 1.2: cni-args MUST be merged)": {
			text: `{"cniVersion":"1.0.0","plugins":[{"type":"bridge","args":{"cni":{"a":1,"b":2},"other":3}},{"type":"tuning"}]}`,
			edit: func(r *Request) { r.Args = map[string]json.RawMessage{"b": []byte(`{"c":[4]}`)} },
			want: `{"cniVersion":"1.0.0","name":"storage","plugins":[{"args":{"cni":{"a":1,"b":{"c":[4]}},"other":3},"type":"bridge"},` +
				`{"args":{"cni":{"b":{"c":[4]}}},"type":"tuning"}]}`,
		},
		"each plugin gets the values of its capabilities only": {
			text: `{"cniVersion":"1.0.0","plugins":[{"type":"bridge","capabilities":{"ips":true,"mac":false}},{"type":"tuning","capabilities":{"mac":true}}]}`,
			edit: func(r *Request) {
				r.Runtime = Runtime{IPs: []string{"192.0.2.9/24"}, MAC: "02:00:00:00:00:01"}
			},
			want: `{"cniVersion":"1.0.0","name":"storage","plugins":[` +
				`{"capabilities":{"ips":true,"mac":false},"runtimeConfig":{"ips":["192.0.2.9/24"]},"type":"bridge"},` +
				`{"capabilities":{"mac":true},"runtimeConfig":{"mac":"02:00:00:00:00:01"},"type":"tuning"}]}`,
		},
		"all values of capabilities": {
			text: `{"cniVersion":"1.0.0","plugins":[{"type":"bridge","deviceID":"stolen","capabilities":{"portMappings":true,"bandwidth":true,"deviceID":true,"CNIDeviceInfoFile":true}}]}`,
			edit: func(r *Request) {
				r.Runtime = Runtime{
					PortMappings: []PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}},
					Bandwidth:    &Bandwidth{IngressRate: 1000}, DeviceID: "0000:03:02.1", DeviceInfoFile: "/run/info",
				}
			},
			want: `{"cniVersion":"1.0.0","name":"storage","plugins":[{` +
				`"capabilities":{"portMappings":true,"bandwidth":true,"deviceID":true,"CNIDeviceInfoFile":true},"deviceID":"0000:03:02.1",` +
				`"runtimeConfig":{"CNIDeviceInfoFile":"/run/info","bandwidth":{"ingressRate":1000},"deviceID":"0000:03:02.1",` +
				`"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]},"type":"bridge"}]}`,
		},
		"a device without the capability is only at the top level": {
			text: `{"cniVersion":"1.0.0","plugins":[{"type":"bridge"},{"type":"tuning"}]}`,
			edit: func(r *Request) { r.Runtime.DeviceID, r.Runtime.DeviceInfoFile = "0000:03:02.1", "/run/info" },
			want: `{"cniVersion":"1.0.0","name":"storage","plugins":[{"deviceID":"0000:03:02.1","type":"bridge"},{"type":"tuning"}]}`,
		},
		"the NetworkType in any case": {
			text: `{"cniVersion":"1.0.0","type":"flannel"}`,
			edit: func(r *Request) { r.Type = "Flannel" },
			want: `{"cniVersion":"1.0.0","name":"storage","plugins":[{"cniVersion":"1.0.0","type":"flannel"}]}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := request(c.text)
			if c.edit != nil {
				c.edit(&r)
			}
			got, err := Build(r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got.JSON)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestBuild_Refused_FieldNamed(t *testing.T) {
	cases := map[string]struct {
		text  string
		edit  func(*Request)
		field string
		says  string
	}{
		"no JSON (DANM case 125: a truncated configuration)": {text: `{"type":"bridge"`, says: "not valid JSON"},
		"too long":                        {text: `{"type":"bridge","x":"` + strings.Repeat("x", cniconf.MaxText) + `"}`, says: "reduce it to 65536"},
		"a plugin that is not granted":    {text: `{"type":"macvlan"}`, field: "type", says: `"macvlan" is not granted`},
		"a later plugin that is not":      {text: `{"plugins":[{"type":"bridge"},{"type":"firewall"}]}`, field: "plugins[1].type", says: "not granted"},
		"IPAM that is not granted":        {text: `{"type":"bridge","ipam":{"type":"dhcp"}}`, field: "ipam.type", says: `IPAM plugin "dhcp" is not granted`},
		"an IPAM plugin as plugin":        {text: `{"type":"host-local"}`, field: "type", says: "not granted"},
		"a plugin as IPAM plugin":         {text: `{"type":"bridge","ipam":{"type":"bridge"}}`, field: "ipam.type", says: "not granted"},
		"IPAM deeper inside":              {text: `{"type":"flannel","x":[{"ipam":{"type":"dhcp"}}]}`, field: "x[0].ipam.type", says: "not granted"},
		"IPAM that is no object":          {text: `{"type":"bridge","ipam":"dhcp"}`, field: "ipam", says: "not an object"},
		"IPAM with a type that is a list": {text: `{"type":"bridge","ipam":{"type":["dhcp"]}}`, field: "ipam.type", says: "not a string"},
		"the delegate of a plugin":        {text: `{"type":"flannel","delegate":{"type":"ptp"}}`, field: "delegate.type", says: "not granted"},
		"IPAM of the delegate of a plugin": {
			text:  `{"type":"flannel","delegate":{"type":"bridge","ipam":{"type":"dhcp"}}}`,
			field: "delegate.ipam.type",
			says:  "not granted",
		},
		"delegates of a plugin": {
			text:  `{"type":"flannel","delegates":[{"type":"bridge"},{"type":"ptp"}]}`,
			field: "delegates[1].type",
			says:  "not granted",
		},
		"a path as plugin":                  {text: `{"type":"../../../tmp/x"}`, field: "type", says: "not a plain file name"},
		"an absolute path as plugin":        {text: `{"type":"/bin/sh"}`, field: "type", says: "not a plain file name"},
		"a hidden file as plugin":           {text: `{"type":".bridge"}`, field: "type", says: "not a plain file name"},
		"a path as IPAM plugin":             {text: `{"type":"bridge","ipam":{"type":"../../x"}}`, field: "ipam.type", says: "not a plain file name"},
		"Alioth's own plugin":               {text: `{"type":"alioth"}`, edit: allow("alioth"), field: "type", says: "program of Alioth"},
		"Alioth's own plugin in upper case": {text: `{"type":"ALIOTH"}`, edit: allow("ALIOTH"), field: "type", says: "program of Alioth"},
		"Alioth's own IPAM plugin": {
			text:  `{"type":"bridge","ipam":{"type":"alioth-ipam"}}`,
			edit:  allow("alioth-ipam"),
			field: "ipam.type",
			says:  "program of Alioth",
		},
		"another NetworkType": {
			text:  `{"type":"bridge"}`,
			edit:  func(r *Request) { r.Type = "calico" },
			field: "type",
			says:  `NetworkType is "calico"`,
		},
		"args that are no object": {
			text: `{"type":"bridge","args":{"cni":[]}}`, field: "args.cni", says: "not an object",
			edit: func(r *Request) { r.Args = map[string]json.RawMessage{"a": []byte(`1`)} },
		},
		"an argument with a key twice": {
			text: `{"type":"bridge"}`, field: "cni-args.a.b", says: "twice",
			edit: func(r *Request) { r.Args = map[string]json.RawMessage{"a": []byte(`{"b":1,"b":2}`)} },
		},
		"an argument that is no JSON": {
			text: `{"type":"bridge"}`, field: "cni-args.a", says: "not valid JSON",
			edit: func(r *Request) { r.Args = map[string]json.RawMessage{"a": []byte(`{`)} },
		},
		"capabilities that are no object": {text: `{"type":"bridge","capabilities":["ips"]}`, field: "capabilities", says: "booleans"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := request(c.text)
			if c.edit != nil {
				c.edit(&r)
			}
			got, err := Build(r)
			var refused *cniconf.Error
			if !errors.As(err, &refused) {
				t.Fatalf("got %s, %v; want a *cniconf.Error", got.JSON, err)
			}
			if refused.Field != c.field || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), r.Where+": ") || refused.Remedy == "" {
				t.Errorf("field %q, %v; want field %q and %q", refused.Field, err, c.field, c.says)
			}
		})
	}
}

func allow(name string) func(*Request) {
	return func(r *Request) { r.Allowed = Allowed{Plugins: []string{"bridge", name}, IPAM: []string{name}} }
}

// Multus passes a value to the plugins with the capability, and starts the pod without any.
func TestBuild_RequestWithoutCapability_LeftOutAndNamed(t *testing.T) {
	for name, runtime := range map[string]Runtime{
		"ips":            {IPs: []string{"192.0.2.9"}},
		"mac":            {MAC: "02:00:00:00:00:01"},
		"portMappings":   {PortMappings: []PortMapping{{HostPort: 1, ContainerPort: 1, Protocol: "tcp"}}},
		"bandwidth":      {Bandwidth: &Bandwidth{EgressRate: 1}},
		"infinibandGUID": {GUID: "c2:11:22:33:44:55:66:77"},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(fmt.Sprintf(`{"cniVersion":"1.0.0","plugins":[{"type":"bridge"},{"type":"tuning","capabilities":{%q:false}}]}`, name))
			r.Runtime = runtime
			got, err := Build(r)
			if err != nil || strings.Contains(string(got.JSON), "runtimeConfig") || !slices.Equal(got.Unserved, []string{name}) || got.Plain != (Plain{}) {
				t.Errorf("got %s, %v, %v, %v", got.JSON, got.Unserved, got.Plain, err)
			}
			r.Text = []byte(strings.ReplaceAll(string(r.Text), "false", "true"))
			got, err = Build(r)
			if err != nil || !strings.Contains(string(got.JSON), `"runtimeConfig":{"`+name+`"`) || len(got.Unserved) > 0 {
				t.Errorf("with the capability: %s, %v, %v", got.JSON, got.Unserved, err)
			}
		})
	}
}

// Multus also has addresses and MAC in CNI_ARGS, which few plugins read.
func TestBuild_CNIArgs_AsPluginReadsThem(t *testing.T) {
	for name, tc := range map[string]struct {
		conf    string
		runtime Runtime
		keys    Keys
		want    Plain
	}{
		"static reads addresses":        {`{"type":"bridge","ipam":{"type":"static"}}`, Runtime{IPs: []string{"192.0.2.9/24", "2001:db8::9/64"}}, Keys{IPs: true}, Plain{IP: "192.0.2.9/24,2001:db8::9/64"}},
		"not without a length":          {`{"type":"bridge","ipam":{"type":"static"}}`, Runtime{IPs: []string{"192.0.2.9"}}, Keys{IPs: true}, Plain{}},
		"host-local reads one":          {`{"type":"bridge","ipam":{"type":"host-local"}}`, Runtime{IPs: []string{"192.0.2.9"}}, Keys{IPs: true}, Plain{IP: "192.0.2.9"}},
		"and no two":                    {`{"type":"bridge","ipam":{"type":"host-local"}}`, Runtime{IPs: []string{"192.0.2.9", "2001:db8::9"}}, Keys{IPs: true}, Plain{}},
		"another IPAM reads none":       {`{"type":"bridge","ipam":{"type":"dhcp"}}`, Runtime{IPs: []string{"192.0.2.9/24"}}, Keys{IPs: true}, Plain{}},
		"without IPAM":                  {`{"type":"bridge"}`, Runtime{IPs: []string{"192.0.2.9/24"}}, Keys{IPs: true}, Plain{}},
		"with the capability":           {`{"type":"bridge","capabilities":{"ips":true},"ipam":{"type":"static"}}`, Runtime{IPs: []string{"192.0.2.9/24"}}, Keys{IPs: true}, Plain{}},
		"not of another namespace":      {`{"type":"bridge","ipam":{"type":"static"}}`, Runtime{IPs: []string{"192.0.2.9/24"}}, Keys{MAC: true}, Plain{}},
		"a MAC of a bridge":             {`{"type":"bridge"}`, Runtime{MAC: "02:00:00:00:00:01"}, Keys{MAC: true}, Plain{MAC: "02:00:00:00:00:01"}},
		"a MAC that is not granted":     {`{"type":"bridge"}`, Runtime{MAC: "02:00:00:00:00:01"}, Keys{IPs: true}, Plain{}},
		"a plugin that reads no MAC":    {`{"type":"flannel"}`, Runtime{MAC: "02:00:00:00:00:01"}, Keys{MAC: true}, Plain{}},
		"more than CNI_ARGS shall have": {`{"type":"bridge","ipam":{"type":"static"}}`, Runtime{IPs: slices.Repeat([]string{"2001:db8:1111:2222:3333:4444:5555:6666/64"}, 8)}, Keys{IPs: true}, Plain{}},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(tc.conf)
			r.Allowed = Allowed{Plugins: []string{"bridge", "flannel"}, IPAM: []string{"static", "host-local", "dhcp"}}
			r.Runtime, r.Plain = tc.runtime, tc.keys
			if got, err := Build(r); err != nil || got.Plain != tc.want {
				t.Errorf("got %+v, %v", got.Plain, err)
			}
		})
	}
}

func TestBuild_NoGrant_Refused(t *testing.T) {
	r := request(`{"type":"bridge"}`)
	r.Allowed = Allowed{}
	if got, err := Build(r); err == nil {
		t.Errorf("got %s", got.JSON)
	}
}

// FuzzBuild checks that a configuration which is accepted has only granted types for a
// parser that ignores case, as plugins in Go do, and that it is accepted again unchanged.
func FuzzBuild(f *testing.F) {
	for _, seed := range []string{
		`{"cniVersion":"1.0.0","type":"bridge","ipam":{"type":"host-local"}}`,
		`{"cniVersions":["0.3.1"],"name":"x","plugins":[{"type":"flannel","delegate":{"type":"bridge"}},{"type":"tuning","capabilities":{"mac":true}}]}`,
		`{"type":"bridge","TYPE":"x"}`, `{"plugins":[null]}`, `{"type":"bridge","ipam":[{"type":"evil"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := Request{Where: "x", Name: "n", Text: text, Allowed: granted}
		c, err := Build(r)
		if err != nil {
			var refused *cniconf.Error
			if !errors.As(err, &refused) || refused.Remedy == "" {
				t.Fatalf("an error without a remedy: %v", err)
			}
			return
		}
		var read struct {
			CNIVersion, Name string
			Plugins          []struct {
				Type     string
				IPAM     json.RawMessage
				Delegate struct{ Type string }
			}
		}
		if err := json.Unmarshal(c.JSON, &read); err != nil {
			t.Fatalf("%s: %v", c.JSON, err)
		}
		if read.Name != c.Name || read.CNIVersion != c.CNIVersion || len(read.Plugins) != len(c.Types) {
			t.Fatalf("%s is not %+v", c.JSON, c)
		}
		for i, p := range read.Plugins {
			var ipam struct{ Type string }
			_ = json.Unmarshal(p.IPAM, &ipam) // a list has no type for any plugin
			for _, used := range []struct {
				name string
				in   []string
			}{{p.Type, granted.Plugins}, {p.Delegate.Type, append(granted.Plugins, "")}, {ipam.Type, append(granted.IPAM, "")}} {
				found := false
				for _, name := range used.in {
					found = found || name == used.name
				}
				if !found {
					t.Fatalf("plugin %d of %s runs %q", i, c.JSON, used.name)
				}
			}
		}
		r.Text = c.JSON
		again, err := Build(r)
		if err != nil || string(again.JSON) != string(c.JSON) {
			t.Fatalf("%s becomes %s, %v", c.JSON, again.JSON, err)
		}
	})
}

// The operator reports a refusal once, as long as it stays the same.
func TestBuild_RefusedRepeatedly_SameRefusal(t *testing.T) {
	text := []byte(`{"type":"bridge","cni.dev/a":0,"cni.dev/b":0,"cni.dev/c":0,"cni.dev/d":0,"prevResult":{},"runtimeConfig":{}}`)
	_, first := Build(Request{Where: "test", Name: "n", Text: text})
	for range 50 {
		if _, err := Build(Request{Where: "test", Name: "n", Text: text}); err == nil || err.Error() != first.Error() {
			t.Fatalf("%v, then %v", first, err)
		}
	}
	long := []byte(`{"type":"bridge","` + strings.Repeat("é", 60) + `":1,"` + strings.Repeat("é", 60) + `":2}`)
	if _, err := Build(Request{Where: "test", Name: "n", Text: long}); err == nil || !utf8.ValidString(err.Error()) {
		t.Errorf("the refusal is %q", err)
	}
}
