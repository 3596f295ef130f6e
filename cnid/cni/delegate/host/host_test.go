// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/cniconf"
	"github.com/alioth-net/alioth/cnid/cni/delegate/host"
	"github.com/alioth-net/alioth/test/needs"
)

// role is the environment variable that makes this program one of the processes below.
const role = "ALIOTH_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "holder":
		os.Exit(hold(os.Args[1]))
	case "exec":
		err := host.Exec(os.Args[1], os.Args[2:], []string{"ONLY=this"})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// hold keeps a mount namespace, into which it was started, until its input ends. There the
// directory has a file system of its own.
func hold(dir string) int {
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("tmpfs", dir, "tmpfs", 0, ""),
		os.WriteFile(filepath.Join(dir, "file"), []byte("of the other namespace\n"), 0o600),
	)
	fmt.Fprintln(os.Stdout, err)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

func TestHostProgram_OtherMountNamespace_RunsThere(t *testing.T) {
	needs.Root(t, "to make mount namespaces")
	dir := t.TempDir()
	holder := exec.Command("/proc/self/exe", dir)
	holder.Env = []string{role + "=holder"}
	holder.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	in, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); errors.Is(err, unix.EPERM) {
		t.Skip("needs CAP_SYS_ADMIN, to make mount namespaces")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = holder.Wait() })
	var ready string
	if _, err := fmt.Fscanln(out, &ready); err != nil || ready != "<nil>" {
		t.Fatalf("the holder of the namespace: %v, %s", err, ready)
	}
	ns := fmt.Sprintf("/proc/%d/ns/mnt", holder.Process.Pid)

	cmd := exec.Command("/proc/self/exe", ns, "/bin/sh", "-c", `cat "$1/file"; pwd; /usr/bin/env`, "sh", dir)
	cmd.Env = []string{role + "=exec"}
	got, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(got), "of the other namespace\n/\n") {
		t.Errorf("%v, printed %q", err, got)
	}
	if text := string(got); !strings.Contains(text, "ONLY=this") || strings.Contains(text, role) {
		t.Errorf("the environment is not the given one: %q", text)
	}
	if _, err := os.Stat(filepath.Join(dir, "file")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of the other namespace is here too: %v", err)
	}

	cmd = exec.Command("/proc/self/exe", ns, "/no/such/program")
	cmd.Env = []string{role + "=exec"}
	if got, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(got), "execute /no/such/program: no such file") {
		t.Errorf("a missing program: %v, %q", err, got)
	}
	cmd = exec.Command("/proc/self/exe", "/proc/0/ns/mnt", "/bin/true")
	cmd.Env = []string{role + "=exec"}
	if got, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(got), "open mount namespace") {
		t.Errorf("a missing namespace: %v, %q", err, got)
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func TestHostProgram_RootPath_FoundBelowRoot(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "one/plain"), "", 0o644)
	write(t, filepath.Join(root, "two/plain"), "", 0o755)
	write(t, filepath.Join(root, "opt/bridge"), "", 0o755)
	if err := errors.Join(
		os.Mkdir(filepath.Join(root, "one/dir"), 0o755),
		os.Symlink("/opt", filepath.Join(root, "linked")), // leads to the root's /opt, not to the node's
		os.Symlink("../../../../../../opt/bridge", filepath.Join(root, "one/up")),
		os.Symlink("/bin/sh", filepath.Join(root, "one/outside")),
	); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct{ name, want string }{
		"a file that is not executable is passed over": {"plain", "/two/plain"},
		"a directory that is a link":                   {"bridge", "/linked/bridge"},
		"a link stays below the root":                  {"up", "/one/up"},
		"a link to a file outside":                     {"outside", ""},
		"a directory":                                  {"dir", ""},
		"a missing file":                               {"none", ""},
		"a path":                                       {"../../opt/bridge", ""},
		"two dots":                                     {"..", ""},
		"nothing":                                      {"", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := host.Root(root).FindProgram(c.name, []string{"/one", "/two", "/linked"})
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// NPWG, lookup of a configuration: the order MUST be .conflist, then .conf, each by the name
// in the JSON; otherwise the request MUST fail.
func TestConfigLookup_ByName_ConflistBeforeConf(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "net.d")
	write(t, filepath.Join(dir, "10-a.conf"), `{"name":"both","from":"conf"}`, 0o600)
	write(t, filepath.Join(dir, "20-b.conflist"), `{"name":"both","from":"20"}`, 0o600)
	write(t, filepath.Join(dir, "30-b.conflist"), `{"name":"both","from":"30"}`, 0o600)
	write(t, filepath.Join(dir, "40-c.json"), `{"name":"single","from":"json"}`, 0o600)
	write(t, filepath.Join(dir, "named.conflist"), `{"name":"another"}`, 0o600)
	write(t, filepath.Join(dir, "05-broken.conflist"), `{`, 0o600)
	write(t, filepath.Join(dir, "06-large.conf"), `{"name":"large"}`+strings.Repeat(" ", cniconf.MaxText), 0o600)
	write(t, filepath.Join(dir, "other.txt"), `{"name":"text"}`, 0o600)
	write(t, filepath.Join(root, "secret"), `{"name":"linked"}`, 0o600)
	if err := errors.Join(
		os.Symlink("../../secret", filepath.Join(dir, "07-link.conf")),
		unix.Mkfifo(filepath.Join(dir, "08-pipe.conf"), 0o600),
		os.Mkdir(filepath.Join(dir, "09-dir.conf"), 0o700),
	); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"both": "20", "single": "json", "named": "", "none": "", "large": "", "text": "", "linked": "",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := host.ConfDir{Path: "/net.d", Root: host.Root(root)}.Named(name)
			if want == "" {
				// MUST fail where nothing is found.
				if err == nil || !strings.Contains(err.Error(), "create the file there") || !strings.Contains(err.Error(), "05-broken.conflist") ||
					!strings.Contains(err.Error(), "07-link.conf: it is a symbolic link") {
					t.Errorf("got %+v, %v", got, err)
				}
			} else if err != nil || !strings.Contains(string(got.Text), `"from":"`+want+`"`) || !strings.HasPrefix(got.Path, "/net.d/") {
				t.Errorf("got %s %s, %v; want the one from %s", got.Path, got.Text, err, want)
			}
		})
	}
}

func TestConfigLookup_ByNetworkID_Found(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "net.d")
	write(t, filepath.Join(dir, "both.conf"), `conf`, 0o600)
	write(t, filepath.Join(dir, "both.conflist"), `list`, 0o600)
	write(t, filepath.Join(dir, "single.conf"), `single`, 0o600)
	write(t, filepath.Join(root, "secret.conf"), `secret`, 0o600)
	if err := os.Symlink("../../secret.conf", filepath.Join(dir, "linked.conf")); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{
		"both": "list", "single": "single", "none": "", "linked": "", "../../secret": "", "/etc/passwd": "", "": "", "..": "", "a\x00b": "",
		strings.Repeat("a", 101): "",
	} {
		t.Run(id, func(t *testing.T) {
			got, err := host.ConfDir{Path: "net.d", Root: host.Root(root)}.OfNetworkID(id)
			if string(got.Text) != want || (err == nil) != (want != "") {
				t.Errorf("got %+v, %v; want %q", got, err, want)
			}
		})
	}
	ids, all, err := host.ConfDir{Path: "net.d", Root: host.Root(root)}.NetworkIDs()
	if want := []string{"both", "linked", "single"}; err != nil || !all || !slices.Equal(ids, want) {
		t.Errorf("the directory has %q (all: %t), %v; want %q", ids, all, err, want)
	}
	for i := range 256 {
		write(t, filepath.Join(dir, fmt.Sprint("more", i, ".conf")), `more`, 0o600)
	}
	if _, all, err := (host.ConfDir{Path: "net.d", Root: host.Root(root)}).NetworkIDs(); err != nil || all {
		t.Errorf("of too many files all are known, %v", err)
	}
	if _, err := (host.ConfDir{Path: "/none", Root: host.Root(root)}).OfNetworkID("x"); err == nil || !strings.Contains(err.Error(), "/none") {
		t.Errorf("without the directory: %v", err)
	}
}

func TestHostFiles_BelowRoot_ReadAndRemoved(t *testing.T) {
	dir := t.TempDir()
	root := host.Root(dir)
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "run"), 0o755), os.Mkdir(filepath.Join(dir, "var"), 0o755), os.Symlink("/run", filepath.Join(dir, "var/run")),
		os.WriteFile(filepath.Join(dir, "run/info"), []byte("x"), 0o600), unix.Mkfifo(filepath.Join(dir, "run/pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if text, err := root.Read("/var/run/info"); err != nil || string(text) != "x" {
		t.Errorf("read %q, %v", text, err)
	}
	if text, err := root.Read("/var/run/pipe"); err == nil {
		t.Errorf("a pipe is read: %q", text)
	}
	for range 2 { // the second time it is gone
		if err := root.Remove("/var/run/info"); err != nil {
			t.Error(err)
		}
	}
	if _, err := root.Read("/var/run/info"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after it was removed: %v", err)
	}
	if err := root.Remove("/nowhere/info"); err != nil {
		t.Error(err)
	}
}
