// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/cnid/netdev/hostdev"
)

// perDevice is the path of a setting, also of "default" and "all".
func perDevice(family, device, name string) string {
	return filepath.Join(family, "conf", device, name)
}

// TestSettingsHaveOneHome: a second place that makes paths of settings would have to refuse
// the same names of devices.
func TestSettingsHaveOneHome(t *testing.T) {
	homes := []string{"cnid/netdev/hostdev/settings.go", "cnid/netfilter/limits.go"}
	const root = "../.."
	for _, dir := range []string{"cnid", "cmd", "ebpf", "operator", "store"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			name, _ := filepath.Rel(root, path)
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || slices.Contains(homes, name) {
				return err
			}
			text, err := os.ReadFile(path)
			if strings.Contains(string(text), `"/proc/sys/net`) || strings.Contains(string(text), `"/proc/sys"`) && !strings.Contains(name, "test/") {
				t.Errorf("%s makes a path of a kernel setting; hostdev.SettingPath does", name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestNoNameOfADeviceLeadsToOtherSettings(t *testing.T) {
	for _, device := range []string{"", ".", "..", "all", "default", "../all", "a/b", "/"} {
		if path, err := hostdev.SettingPath(hostdev.IPv6, device, "forwarding"); err == nil {
			t.Errorf("the device %q has the setting %s", device, path)
		}
	}
	if path, err := hostdev.SettingPath(hostdev.IPv4, "alldevices", "rp_filter"); err != nil || path != "ipv4/conf/alldevices/rp_filter" {
		t.Errorf("the path is %s, %v", path, err)
	}
}
