// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/test/cluster/underlay"
)

// machine is the part of a machine that the script sees: files below a root folder, and the output
// of programs.
type machine struct {
	files    map[string]string
	programs map[string]string
	env      map[string]string
}

// good returns a machine that can run the lab, and has built it.
func good() machine {
	m := machine{
		files: map[string]string{
			"/sys/kernel/btf/vmlinux": "",
			"/proc/filesystems":       "nodev\tproc\nnodev\toverlay\nnodev\tbpf\n",
			"/proc/self/mounts":       "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n",
			"/proc/meminfo":           "MemTotal: 8000000 kB\nMemAvailable: 7000000 kB\nSwapFree: 0 kB\n",
			"/proc/net/route":         "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\neth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\n",
			"/cache/alioth/kubernetes-v1.36.3-0123456789ab/kubectl": "",
		},
		programs: map[string]string{
			"id": "echo 0", "uname": `[ "$1" = -s ] && echo Linux || echo 6.12.1-amd64`, "modprobe": "exit 1", "apt-get": "",
			"df": "echo Filesystem 1024-blocks Used Available Capacity Mounted; echo /dev/sda 90000000 1 20000000 1% /",
			"go": "case $1 in version) echo go version go1.99.0 linux/amd64 ;; env) echo auto ;; esac",
		},
		env: map[string]string{},
	}
	for _, name := range []string{"net", "mnt", "uts", "pid", "ipc"} {
		m.files["/proc/self/ns/"+name] = ""
	}
	return m
}

// check runs the script for a machine in the root folder of the work tree.
func (m machine) check(t *testing.T, parts ...string) string {
	t.Helper()
	root, bin := t.TempDir(), t.TempDir()
	for name, text := range m.files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// Nothing of the real machine but the programs that every Unix has.
	for _, name := range []string{"awk", "sed", "cat", "mktemp", "rm", "dirname"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range m.programs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"test/cluster/host/check.sh"}, parts...)...)
	cmd.Dir = filepath.Join("..", "..", "..")
	cmd.Env = []string{"PATH=" + bin, "HOME=/nowhere", "HOST_ROOT=" + root, "XDG_CACHE_HOME=" + filepath.Join(root, "cache")}
	for name, value := range m.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if (err == nil) != (len(out) == 0) {
		t.Errorf("ended with %v and printed\n%s", err, out)
	}
	return string(out)
}

func TestCheckScript_GoodMachine_Silent(t *testing.T) {
	if out := good().check(t); out != "" {
		t.Errorf("printed\n%s", out)
	}
}

func TestCheckScript_SomethingMissing_RemedyTold(t *testing.T) {
	cold := func(m machine) { delete(m.files, "/cache/alioth/kubernetes-v1.36.3-0123456789ab/kubectl") }
	for name, c := range map[string]struct {
		change func(m machine)
		want   []string
	}{
		"no Go":                        {func(m machine) { delete(m.programs, "go") }, []string{"Go is not installed", "https://go.dev/doc/install"}},
		"a broken Go":                  {func(m machine) { m.programs["go"] = "exit 1" }, []string{"does not tell its version"}},
		"an old Go that fetches":       {func(m machine) { m.programs["go"] = oldGo("1.22.1", "auto") }, nil},
		"an old Go that may not fetch": {func(m machine) { m.programs["go"] = oldGo("1.24.4", "local") }, []string{"Go 1.24.4 is too old", "GOTOOLCHAIN=auto"}},
		"an old Go that is pinned":     {func(m machine) { m.programs["go"] = oldGo("1.24.4", "go1.24.4") }, []string{"GOTOOLCHAIN=auto"}},
		"an old Go that can't fetch":   {func(m machine) { m.programs["go"] = oldGo("1.19.8", "") }, []string{"Go 1.19.8 is too old", "can't fetch", "Go 1.26"}},
		"a user":                       {func(m machine) { m.programs["id"] = "echo 1000" }, []string{"not root", `sudo -E env "PATH=$PATH" make demo`}},
		"another system":               {func(m machine) { m.programs["uname"] = "echo Darwin" }, []string{"no Linux"}},
		"an old kernel":                {func(m machine) { m.programs["uname"] = `[ "$1" = -s ] && echo Linux || echo 5.10.0-30-amd64` }, []string{"Linux 5.10.0-30-amd64", "6.1 or newer"}},
		"no BTF":                       {func(m machine) { delete(m.files, "/sys/kernel/btf/vmlinux") }, []string{"CONFIG_DEBUG_INFO_BTF"}},
		"no namespaces":                {func(m machine) { delete(m.files, "/proc/self/ns/uts") }, []string{"no uts namespaces"}},
		"no overlay":                   {func(m machine) { m.files["/proc/filesystems"] = "nodev\tbpf\n" }, []string{"modprobe overlay"}},
		"no bpffs":                     {func(m machine) { m.files["/proc/filesystems"] = "nodev\toverlay\n" }, []string{"CONFIG_BPF_SYSCALL"}},
		"no cgroup2":                   {func(m machine) { m.files["/proc/self/mounts"] = "proc /proc proc rw 0 0\n" }, []string{"mount -t cgroup2"}},
		"half of cgroup v1": {func(m machine) {
			m.files["/proc/self/mounts"] += "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\ncgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0\n"
		}, []string{"cgroup v1 without cpuset, memory, pids,"}},
		"all of cgroup v1": {func(m machine) {
			m.files["/proc/self/mounts"] = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
			for _, name := range []string{"name=systemd", "cpu,cpuacct", "memory", "cpuset", "pids"} {
				m.files["/proc/self/mounts"] += "cgroup /sys/fs/cgroup/" + name + " cgroup rw,nosuid," + name + " 0 0\n"
			}
		}, nil},
		"no memory":          {func(m machine) { m.files["/proc/meminfo"] = "MemAvailable: 900000 kB\nSwapFree: 100000 kB\n" }, []string{"976 MiB of memory and swap", "add swap"}},
		"no memory to build": {func(m machine) { cold(m); m.files["/proc/meminfo"] = "MemAvailable: 2500000 kB\n" }, []string{"to build Kubernetes takes"}},
		"memory to run":      {func(m machine) { m.files["/proc/meminfo"] = "MemAvailable: 2500000 kB\n" }, nil},
		"no disk":            {func(m machine) { m.programs["df"] = disk(500) }, []string{"500 MiB of disk are free at /", "make room", "GOCACHE"}},
		"no disk to build":   {func(m machine) { cold(m); m.programs["df"] = disk(4000) }, []string{"4000 MiB of disk are free"}},
		"disk to run":        {func(m machine) { m.programs["df"] = disk(4000) }, nil},
		"a percent of a large disk": {func(m machine) {
			m.programs["df"] = "echo Filesystem 1024-blocks Used Available Capacity Mounted; echo /dev/sda 270000000 1 2048000 99% /"
		}, []string{"2000 MiB of disk are free at /, and the lab needs 3636 MiB"}},
		"no apt, nothing there": {func(m machine) { delete(m.programs, "apt-get") }, []string{"no apt-get", "etcd-server (/usr/bin/etcd)", "runc (/usr/sbin/runc)"}},
		"no apt, all there": {func(m machine) {
			delete(m.programs, "apt-get")
			for _, file := range packages() {
				m.files[file] = ""
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := good()
			c.change(m)
			out := m.check(t)
			if (out == "") != (len(c.want) == 0) || strings.Count(out, "\n- ") > 1 {
				t.Errorf("printed\n%s", out)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("want %q in\n%s", want, out)
				}
			}
		})
	}
}

// A lab that is up uses memory and disk, and so does a test that compiles: neither may end a run.
func TestCheckScript_Room_MeasuredOnlyBeforeLab(t *testing.T) {
	const none, some = "MemTotal: 900000 kB\nMemAvailable: 100000 kB\n", "MemTotal: 8000000 kB\nMemAvailable: 100000 kB\nSwapTotal: 0 kB\n"
	up := t.TempDir()
	if err := os.WriteFile(filepath.Join(up, "state.json"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		memory string
		free   int // MiB of disk
		env    map[string]string
		want   int // lines
	}{
		"without a lab":                    {none, 1, map[string]string{"LAB_DIR": t.TempDir()}, 2},
		"with a lab":                       {none, 1, map[string]string{"LAB_DIR": up}, 0},
		"in a step":                        {none, 1, map[string]string{"ALIOTH_ROOM": "checked"}, 0},
		"a small machine before all steps": {none, 20_000, map[string]string{"ALIOTH_ROOM": "total"}, 1},
		"a busy machine before all steps":  {some, 20_000, map[string]string{"ALIOTH_ROOM": "total"}, 0},
		"a full disk before all steps":     {some, 1, map[string]string{"ALIOTH_ROOM": "total"}, 1},
		"a busy machine before a lab":      {some, 20_000, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := good()
			m.files["/proc/meminfo"], m.programs["df"] = c.memory, disk(c.free)
			maps.Copy(m.env, c.env)
			if out := m.check(t); strings.Count(out, "\n- ") != c.want {
				t.Errorf("want %d lines of\n%s", c.want, out)
			}
		})
	}
}

// A run asks for less than a lab alone, and its steps for nothing.
func TestMake_Room_MeasuredOnceBeforeRun(t *testing.T) {
	check := filepath.Join(t.TempDir(), "check")
	if err := os.WriteFile(check, []byte("#!/bin/sh\n[ $1 = go ] && exit\necho \"room=$ALIOTH_ROOM.\"\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]string{"test": "total", "soak": "total", "demo": "", "up": "", "test-scenes": ""} {
		// Without a Go nothing would run even if the check passed.
		if out, err := makes(t, "CHECK="+check, "GO=false", target); err == nil || !strings.Contains(out, "room="+want+".") {
			t.Errorf("make %s: %v and\n%s", target, err, out)
		}
	}
	out, err := makes(t, "--dry-run", "test")
	if before, _, found := strings.Cut(out, "bin/lanes --"); err != nil || !found || !strings.Contains(before, "ALIOTH_ROOM=checked") {
		t.Errorf("the lanes of make test: %v and\n%s", err, out)
	}
}

// makes runs make in the root folder of the work tree.
func makes(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", arguments...)
	cmd.Dir = filepath.Join("..", "..", "..")
	cmd.Env = append(os.Environ(), "ALIOTH_ROOM=", "MAKEFLAGS=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// oldGo returns a go command of a version with a setting of GOTOOLCHAIN.
func oldGo(version, toolchain string) string {
	return "case $1 in version) echo go version go" + version + " linux/amd64 ;; env) echo " + toolchain + " ;; esac"
}

// disk returns a df that shows a number of free MiB.
func disk(free int) string {
	return "echo Filesystem 1024-blocks Used Available Capacity Mounted; echo /dev/sda 9 1 $((" + strconv.Itoa(free) + " * 1024)) 1% /"
}

func TestCheckScript_SeveralMissing_AllTold(t *testing.T) {
	m := good()
	m.programs["id"], m.programs["df"] = "echo 1000", disk(1)
	delete(m.files, "/sys/kernel/btf/vmlinux")
	if out := m.check(t); strings.Count(out, "\n- ") != 3 {
		t.Errorf("want three lines of\n%s", out)
	}
	if out := m.check(t, "go"); out != "" {
		t.Errorf("of Go alone it printed\n%s", out)
	}
	delete(m.programs, "go")
	if out := m.check(t, "machine"); strings.Contains(out, "Go is not") {
		t.Errorf("of the machine alone it printed\n%s", out)
	}
}

// A container engine, or another clone of the work tree, may have the network of the lab.
func TestCheckScript_NetworkTaken_Told(t *testing.T) {
	for number := range 10 {
		lab := ""
		if number > 0 {
			lab = strconv.Itoa(number)
		}
		t.Setenv(underlay.LabVariable, lab)
		topology := underlay.DefaultTopology(1)
		v4, _ := topology.Networks()
		octets := v4.Addr().As4()
		route := func(device string) string {
			return "\n" + device + "\t00" + fmt.Sprintf("%02X", octets[2]) + "A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF"
		}
		for device, taken := range map[string]bool{"docker0": true, topology.HostLink(): false} {
			m := good()
			m.files["/proc/net/route"] = strings.TrimSpace(m.files["/proc/net/route"]) + route(device) + "\n"
			m.env = maps.Clone(m.env)
			m.env[underlay.LabVariable] = lab
			if out := m.check(t); strings.Contains(out, v4.String()+" of the lab is on the device "+device) != taken {
				t.Errorf("with %s on %s it printed\n%s", v4, device, out)
			}
		}
	}
}

// An older Go fails with errors that do not name the cause, so make looks before it calls Go.
func TestMake_OldGo_Told(t *testing.T) {
	old := filepath.Join(t.TempDir(), "go")
	if err := os.WriteFile(old, []byte("#!/bin/sh\n"+oldGo("1.24.4", "local")+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for target, refused := range map[string]bool{"build": true, "demo": true, "down": true, "help": false} {
		out, err := makes(t, "--dry-run", "GO="+old, target)
		if reported := err != nil && strings.Contains(out, "Go 1.24.4 is too old"); reported != refused {
			t.Errorf("make %s: %v and\n%s", target, err, out)
		}
	}
}
