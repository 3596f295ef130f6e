// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
)

// perDevice is the path of a setting, also of "default" and "all".
func perDevice(family, device, name string) string {
	return filepath.Join(family, "conf", device, name)
}

func TestSysctl_HostileDeviceName_NoOtherSettingReached(t *testing.T) {
	for _, device := range []string{"", ".", "..", "all", "default", "../../all", "a/b", "/"} {
		if path, err := hostdev.SettingPath(ipfamily.IPv6, device, "forwarding"); err == nil {
			t.Errorf("the device %q has the setting %s", device, path)
		}
	}
	if path, err := hostdev.SettingPath(ipfamily.IPv4, "alldevices", "rp_filter"); err != nil || path != "ipv4/conf/alldevices/rp_filter" {
		t.Errorf("the path is %s, %v", path, err)
	}
}

// TestUplinkSettings_Effective_Reported: the kernel combines many
// settings of a device with the setting of all devices.
func TestUplinkSettings_Effective_Reported(t *testing.T) {
	const device = "eth0"
	redirects, routes := perDevice("ipv4", device, "accept_redirects"), perDevice("ipv6", device, "accept_source_route")
	for name, c := range map[string]struct{ set, want map[string]string }{
		"as they should be":           {nil, map[string]string{}},
		"no forwarding":               {map[string]string{perDevice("ipv4", device, "forwarding"): "0"}, map[string]string{perDevice("ipv4", device, "forwarding"): "off"}},
		"redirects of the device":     {map[string]string{redirects: "1"}, map[string]string{}},
		"redirects of all devices":    {map[string]string{redirects: "0", perDevice("ipv4", "all", "accept_redirects"): "1"}, map[string]string{}},
		"redirects of both":           {map[string]string{redirects: "1", perDevice("ipv4", "all", "accept_redirects"): "1"}, map[string]string{redirects: "on"}},
		"routing headers of the node": {map[string]string{routes: "1", perDevice("ipv6", "all", "accept_source_route"): "1"}, map[string]string{routes: "on"}},
		"routing headers of type 2":   {map[string]string{routes: "0", perDevice("ipv6", "all", "accept_source_route"): "-1"}, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			n := testnet.New(t)
			testnet.Veth(t, n, device, nil, testnet.New(t), "peer", nil)
			testnet.In(t, n, func() error {
				failures := []error{write(forward4, "1"), write(forward6, "1")} // the first turns redirects of all devices off
				for _, setting := range slices.Sorted(maps.Keys(c.set)) {
					failures = append(failures, write(setting, c.set[setting]))
				}
				found, err := UplinkDeviations(device)
				if diff := cmp.Diff(c.want, found); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				return errors.Join(append(failures, err)...)
			})
		})
	}
}
