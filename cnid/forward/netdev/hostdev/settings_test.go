// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostdev_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
)

// TestSettingsDocument_AllSettings_TableComplete compares the rows in their order.
func TestSettingsDocument_AllSettings_TableComplete(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/security/node-settings.md")
	if err != nil {
		t.Fatal(err)
	}
	var own, uplinks, pods strings.Builder
	for _, s := range hostdev.Settings {
		fmt.Fprintf(&own, "| %s | %s | %d | %s |\n", hostdev.FamilyFolder(s.Family), s.Name, s.Value, s.Reason)
	}
	for _, s := range hostdev.UplinkSettings {
		on := map[bool]string{true: "on", false: "off"}[s.On]
		fmt.Fprintf(&uplinks, "| %s | %s | %s | %s |\n", hostdev.FamilyFolder(s.Family), s.Name, on, s.Reason)
	}
	for _, s := range hostdev.PodSettings {
		fmt.Fprintf(&pods, "| %s | %s | %d | %s |\n", hostdev.FamilyFolder(s.Family), s.Name, s.Value, s.Reason)
	}
	for _, rows := range []string{own.String(), uplinks.String(), pods.String()} {
		if !strings.Contains(string(text), "| --- | --- | --- | --- |\n"+rows+"\n") {
			t.Errorf("docs/security/node-settings.md does not have exactly these rows:\n%s", rows)
		}
	}
}

// TestSettings_EachSetting_DefinedOnce: a second place that makes paths of settings would have to refuse
// the same names of devices.
func TestSettings_EachSetting_DefinedOnce(t *testing.T) {
	homes := []string{"cnid/forward/netdev/hostdev/settings.go", "cnid/system/conntrack/limit.go", "cnid/system/netns/netnstest/settings.go"}
	const root = "../../../.."
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
