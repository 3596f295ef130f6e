// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam_test

import (
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/alioth-net/alioth/api/ipamconf"
	"github.com/alioth-net/alioth/cnid/nodeipam/plugin/ipam"
)

// TestMain is the plugin itself where the test starts it under its name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == ipamconf.Type {
		ipam.Main()
		return
	}
	os.Exit(m.Run())
}

var config = ipamconf.Config{
	Type: ipamconf.Type,
	Addresses: []ipamconf.Address{
		{Address: netip.MustParsePrefix("192.0.2.7/24"), Gateway: netip.MustParseAddr("192.0.2.1")},
		{Address: netip.MustParsePrefix("2001:db8::7/64")},
	},
	Routes: []ipamconf.Route{{Dst: netip.MustParsePrefix("198.51.100.0/24"), Gateway: netip.MustParseAddr("192.0.2.1")}},
}

// run executes a command and returns the output of the plugin.
func run(t *testing.T, command string, stdin map[string]any) (string, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	plugin := filepath.Join(t.TempDir(), ipamconf.Type)
	if err := os.Symlink(self, plugin); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(stdin)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(plugin)
	cmd.Stdin = strings.NewReader(string(text))
	cmd.Env = []string{"CNI_COMMAND=" + command, "CNI_CONTAINERID=c", "CNI_NETNS=/run/netns/none", "CNI_IFNAME=net1", "CNI_PATH=/none"}
	out, err := cmd.Output()
	return string(out), err
}

func TestIPAMPlugin_EachVersion_ConfiguredAddressesReturned(t *testing.T) {
	for _, v := range version.All.SupportedVersions() {
		t.Run(v, func(t *testing.T) {
			conf := map[string]any{"cniVersion": v, "name": "n", "type": "bridge", "ipam": config}
			out, err := run(t, "ADD", conf)
			if err != nil {
				t.Fatalf("ADD: %v\n%s", err, out)
			}
			raw, err := create.CreateFromBytes([]byte(out))
			if err != nil {
				t.Fatal(err)
			}
			res, err := types100.NewResultFromResult(raw)
			if err != nil || raw.Version() != v || len(res.IPs) != 2 || res.IPs[0].Address.String() != "192.0.2.7/24" ||
				res.IPs[0].Gateway.String() != "192.0.2.1" || res.IPs[1].Address.String() != "2001:db8::7/64" ||
				len(res.Routes) != 1 || res.Routes[0].Dst.String() != "198.51.100.0/24" || res.Routes[0].GW.String() != "192.0.2.1" {
				t.Errorf("%v, version %s, %s", err, raw.Version(), out)
			}
			conf["prevResult"] = json.RawMessage(out)
			commands := []string{"CHECK", "DEL", "GC", "STATUS"}
			if v < "0.4.0" {
				commands = []string{"DEL"}
			} else if v < "1.1.0" {
				commands = []string{"CHECK", "DEL"}
			}
			for _, command := range commands {
				if out, err := run(t, command, conf); err != nil || out != "" {
					t.Errorf("%s: %v, %s", command, err, out)
				}
			}
		})
	}
}

func TestIPAMPluginCHECK_AddressMissing_Fails(t *testing.T) {
	conf := map[string]any{
		"cniVersion": "1.0.0", "name": "n", "type": "bridge", "ipam": config,
		"prevResult": map[string]any{"cniVersion": "1.0.0", "ips": []any{map[string]any{"address": "192.0.2.7/24"}}},
	}
	out, err := run(t, "CHECK", conf)
	if err == nil || !strings.Contains(out, "prevResult lacks the address 2001:db8::7/64") {
		t.Errorf("%v, %s", err, out)
	}
}

func TestIPAMPlugin_OtherConfiguration_Error(t *testing.T) {
	for name, conf := range map[string]any{
		"nothing": nil, "another type": ipamconf.Config{Type: "static", Addresses: config.Addresses},
		"an empty address": map[string]any{"type": ipamconf.Type, "addresses": []any{map[string]any{}}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, "ADD", map[string]any{"cniVersion": "1.0.0", "name": "n", "type": "bridge", "ipam": conf})
			var printed types.Error
			if json.Unmarshal([]byte(out), &printed) != nil || err == nil || printed.Code != types.ErrInvalidNetworkConfig {
				t.Errorf("%v, %s", err, out)
			}
		})
	}
}
