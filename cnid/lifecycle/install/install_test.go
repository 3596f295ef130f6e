// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/lifecycle/install/cnidir"
)

func TestConflist_Install_RuntimeReadable(t *testing.T) {
	for _, socket := range []string{cniapi.DefaultSocket, "/run/other/cnid.sock"} {
		t.Run(socket, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "net.d")
			if err := WriteConflist(dir, socket); err != nil {
				t.Fatal(err)
			}
			list, err := libcni.NetworkConfFromFile(filepath.Join(dir, cnidir.ConflistName))
			if err != nil {
				t.Fatal(err)
			}
			if len(list.Plugins) != 1 || list.Plugins[0].Network.Type != cnidir.PluginName || list.CNIVersion != "1.1.0" {
				t.Errorf("read back: %+v", list)
			}
			raw, err := os.ReadFile(filepath.Join(dir, cnidir.ConflistName))
			if err != nil {
				t.Fatal(err)
			}
			var earlier struct{ CNIVersion string }
			if err := json.Unmarshal(raw, &earlier); err != nil || earlier.CNIVersion != "1.0.0" {
				t.Errorf("%v: a runtime of CNI 1.0, which ignores cniVersions, reads version %q", err, earlier.CNIVersion)
			}
			if got := cniapi.SocketIn(list.Plugins[0].Bytes); got != socket {
				t.Errorf("the plugin would ask %s, want %s", got, socket)
			}
		})
	}
}

func TestConflist_Unchanged_FileLeftAlone(t *testing.T) {
	dir := t.TempDir()
	var before os.FileInfo
	for range 2 {
		if err := WriteConflist(dir, cniapi.DefaultSocket); err != nil {
			t.Fatal(err)
		}
		after, err := os.Stat(filepath.Join(dir, cnidir.ConflistName))
		if err != nil {
			t.Fatal(err)
		}
		if before != nil && !os.SameFile(before, after) {
			t.Error("the file was replaced")
		}
		before = after
	}
}

func TestCNIConfig_EarlierSortedFile_Found(t *testing.T) {
	cases := map[string]struct {
		files []string
		want  string
	}{
		"nothing else":             {[]string{cnidir.ConflistName}, ""},
		"one behind":               {[]string{cnidir.ConflistName, "10-bridge.conf"}, ""},
		"one before":               {[]string{cnidir.ConflistName, "00-bridge.conf"}, "00-bridge.conf"},
		"a list before, ours gone": {[]string{"05-aaa.conflist"}, "05-aaa.conflist"},
		"no configuration":         {[]string{cnidir.ConflistName, "00-readme.txt", ".05-alioth.conflist.1"}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, file := range c.files {
				if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := ConfigurationBefore(dir); err != nil || got != c.want {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestPluginBinary_Install_ReplacedAtomically(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bin")
	for _, content := range []string{"first", "second"} {
		binary := filepath.Join(t.TempDir(), "alioth")
		if err := os.WriteFile(binary, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Plugin(binary, dir); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, cnidir.PluginName)
		got, err := os.ReadFile(path)
		if err != nil || string(got) != content {
			t.Errorf("installed %q, %v; want %q", got, err, content)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("in the directory: %v, %v", left, err)
	}
}

func TestIPAMPlugin_Install_SameFile(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(t.TempDir(), "alioth")
	if err := os.WriteFile(binary, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Files of other programs under these names are replaced.
	for _, name := range []string{"alioth-ipam", ".alioth-ipam.new"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Plugin(binary, dir); err != nil {
		t.Fatal(err)
	}
	one, err := os.Stat(filepath.Join(dir, cnidir.PluginName))
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.Stat(filepath.Join(dir, "alioth-ipam"))
	if err != nil || !os.SameFile(one, two) {
		t.Errorf("alioth-ipam is %v, %v; want the file of alioth", two, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("in the directory: %v, %v", left, err)
	}
}

func TestPluginBinary_SourceUnreadable_OldOneKept(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, cnidir.PluginName)
	if err := os.WriteFile(path, []byte("old"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Plugin(t.TempDir(), dir); err == nil {
		t.Error("a directory was installed")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("now there is %q, %v", got, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("in the directory: %v, %v", left, err)
	}
}

func TestCgroup2Mounts_EachLayout_Found(t *testing.T) {
	cases := map[string]struct {
		table string
		want  []string
	}{
		"unified": {"24 23 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate", []string{"/sys/fs/cgroup"}},
		"hybrid": {
			"25 23 0:23 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n26 23 0:22 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw",
			[]string{"/sys/fs/cgroup/unified"},
		},
		"two, one with a space": {
			"24 23 0:22 /a /own rw - cgroup2 cgroup2 rw\n25 23 0:22 / /my\\040cgroup rw - cgroup2 cgroup2 rw",
			[]string{"/own", "/my cgroup"},
		},
		"version 1 only": {"25 23 0:23 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu", nil},
		"nonsense":       {"cgroup2\n - \n", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := cgroup2Mounts(strings.NewReader(c.table))
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestCgroupRoot_EachMount_OnlyHierarchyRootTaken(t *testing.T) {
	cases := map[string]struct {
		files []string
		want  bool
	}{
		"the root":                 {[]string{"cgroup.controllers", "cgroup.procs"}, true},
		"a container's own cgroup": {[]string{"cgroup.controllers", "cgroup.events"}, false},
		"no cgroup2":               {[]string{"cgroup.procs"}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, file := range c.files {
				if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := isCgroupRoot(dir); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestPodCgroup_NamedOrKubelet_Chosen(t *testing.T) {
	const ask = "--node-ipam-pod-cgroup"
	for name, c := range map[string]struct {
		dirs       []string
		configured string
		want, fail string
	}{
		"the kubelet has the driver of systemd":     {dirs: []string{"kubepods.slice", "system.slice"}, want: "kubepods.slice"},
		"the kubelet makes them itself":             {dirs: []string{"kubepods"}, want: "kubepods"},
		"none is there":                             {dirs: []string{"system.slice"}, fail: ask},
		"one is left from another driver":           {dirs: []string{"kubepods", "kubepods.slice"}, fail: ask},
		"one is left, and the other is named":       {dirs: []string{"kubepods", "kubepods.slice"}, configured: "kubepods", want: "kubepods"},
		"one below another is named":                {dirs: []string{"kubelet/kubepods"}, configured: "kubelet/kubepods", want: "kubelet/kubepods"},
		"what is named does not exist":              {dirs: []string{"kubepods"}, configured: "pods", fail: ask},
		"the root is named, which has all there is": {configured: ".", fail: ask},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, dir := range c.dirs {
				if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root, dir, "cgroup.events"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			configured := c.configured
			if configured != "" {
				configured = filepath.Join(root, configured)
			}
			got, err := PodCgroup(root, configured)
			if c.fail != "" {
				if err == nil || !strings.Contains(err.Error(), c.fail) {
					t.Errorf("got %q, %v, want an error with %q", got, err, c.fail)
				}
				return
			}
			if err != nil || got != filepath.Join(root, c.want) {
				t.Errorf("got %q, %v, want %s", got, err, c.want)
			}
		})
	}
}
