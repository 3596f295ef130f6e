// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/cnid/cni/cniapi"
)

// TestCnitool_EachVerbAndVersion_Succeeds tries the plugin by hand, with the specification's own
// tool.
func TestCnitool_EachVerbAndVersion_Succeeds(t *testing.T) {
	bin := buildPlugin(t)
	tool := filepath.Join(bin, "cnitool")
	for _, version := range cniapi.Versions() {
		t.Run(version, func(t *testing.T) {
			r, cni := newRig(t), newPlugin(t, bin)
			cni.serve(t, r)
			p := r.newPod(t, 1)
			run := cnitool(t, cni, p, tool, version)
			text, err := run("add")
			var result struct{ CNIVersion string }
			if err == nil {
				err = json.Unmarshal([]byte(text), &result)
			}
			if err != nil || result.CNIVersion != version {
				t.Fatalf("add: %v: %s", err, text)
			}
			if got := p.netns.Links(t); len(got) != 1 || got[0] != "eth0" {
				t.Errorf("the namespace has %v", got)
			}
			for _, verb := range []string{"check", "status", "del", "del"} {
				if text, err := run(verb); err != nil && (verb != "check" || version != "0.3.1") { // which has no CHECK
					t.Errorf("%s: %v: %s", verb, err, text)
				}
			}
			r.expectEmpty(t)
			if text, err := run("gc"); err != nil {
				t.Errorf("gc: %v: %s", err, text)
			}
		})
	}
}

// cnitool returns a function that runs a verb of the tool. Its cache under
// /var/lib is a directory of the test.
func cnitool(t *testing.T, cni plugin, p pod, tool, version string) func(verb string) (string, error) {
	t.Helper()
	dir, cache := t.TempDir(), t.TempDir()
	conf, err := json.Marshal(map[string]any{
		"cniVersion": version, "name": "alioth",
		"plugins": []map[string]any{{"type": "alioth", "socket": cni.socket}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "alioth.conflist"), conf, 0o600); err != nil {
		t.Fatal(err)
	}
	// The container ID is cnitool's own choice.
	args, _, _ := strings.Cut(p.args(), ";K8S_POD_INFRA_CONTAINER_ID")
	args += ";K8S_POD_UID=" + p.uid
	return func(verb string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private",
			"sh", "-c", `mount --bind "$0" /var/lib && exec "$@"`, cache, tool, verb, "alioth", p.netns.Path)
		cmd.Env = append(os.Environ(), "NETCONFPATH="+dir, "CNI_PATH="+cni.dir, "CNI_ARGS="+args)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}
