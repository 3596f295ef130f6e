// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/test/cluster/underlay"
	"github.com/alioth-net/alioth/test/vm/debian"
)

func somePlan() Plan {
	return Plan{
		Topology: underlay.Topology{Lab: "lab", Nodes: 3, Guests: 1, Octet: 76}, Index: 3,
		Share: "/somewhere/lab", Private: []string{"/somewhere/lab/private"},
	}
}

func TestMachine_Ports_ConnectedWithAddresses(t *testing.T) {
	m := Machine(somePlan(), "k", "i", "c")
	if m.Kernel != "k" || m.Initramfs != "i" || m.Console != "c" {
		t.Errorf("it boots %s with %s and writes to %s", m.Kernel, m.Initramfs, m.Console)
	}
	line := strings.Join(append(slices.Clone(m.Networks), m.Devices...), " ")
	for _, want := range []string{
		"tap,id=lan,ifname=node3,script=no,downscript=no", "netdev=lan,mac=02:a1:4c:03:00:01",
		"tap,id=wire,ifname=node3hw,script=no,downscript=no", "igb,netdev=wire,bus=socket1,mac=02:a1:4c:03:00:02",
		"hubport,id=eth2,hubid=1", "hubport,id=far2,hubid=1", "netdev=eth2,mac=02:a1:4c:03:02:01", "netdev=far2,mac=02:a1:4c:03:02:02",
	} {
		if !strings.Contains(line, want) {
			t.Errorf("no %q in %s", want, line)
		}
	}
	if len(m.Shares) != 1 || m.Shares[0].Dir != "/somewhere/lab" || m.Shares[0].Tag != ShareTag {
		t.Errorf("it shares %+v", m.Shares)
	}
}

// someKernel returns a folder of modules as depmod leaves it. No module depends on another one, and
// all but one are built in.
func someKernel(t *testing.T) debian.Kernel {
	t.Helper()
	dir := t.TempDir()
	var builtin strings.Builder
	for _, module := range modules() {
		if module != "igb" {
			builtin.WriteString("kernel/" + module + ".ko\n")
		}
	}
	for name, text := range map[string]string{"modules.dep": "kernel/igb.ko.xz:\n", "modules.builtin": builtin.String(), "kernel/igb.ko.xz": "igb"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return debian.Kernel{Modules: dir}
}

// contents returns the files of an archive.
func contents(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	files := map[string]string{}
	for r := cpio.NewReader(f); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if header.Mode.IsRegular() {
			files["/"+header.Name] = string(raw)
		}
	}
}

func TestWriteImage_PlanModulesPrograms_AllIncluded(t *testing.T) {
	for _, tool := range tools() {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs what make setup installs:", tool)
		}
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(dir, "image")
	plan := somePlan()
	err := WriteImage(t.Context(), image, someKernel(t), plan, Programs{Init: program, Files: map[string]string{"/cache/kubelet": program}})
	if err != nil {
		t.Fatal(err)
	}
	files := contents(t, image)
	if files["/init"] != "a program" || files["/cache/kubelet"] != "a program" || files["/modules/igb.ko.xz"] != "igb" {
		t.Errorf("it lacks a program or the module: %q, %q, %q", files["/init"], files["/cache/kubelet"], files["/modules/igb.ko.xz"])
	}
	if files["/etc/hostname"] != "lab-node3\n" || len(strings.TrimSpace(files["/etc/machine-id"])) != 32 {
		t.Errorf("the machine is %q with the ID %q", files["/etc/hostname"], files["/etc/machine-id"])
	}
	var got Plan
	if err := json.Unmarshal([]byte(files[PlanFile]), &got); err != nil {
		t.Fatal(err)
	}
	plan.Modules = []string{"/modules/igb.ko.xz"}
	if diff := cmp.Diff(plan, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestWriteImage_ModuleMissing_Refused(t *testing.T) {
	kernel := someKernel(t)
	if err := os.WriteFile(filepath.Join(kernel.Modules, "modules.dep"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	err := WriteImage(t.Context(), filepath.Join(t.TempDir(), "image"), kernel, somePlan(), Programs{})
	if err == nil || !strings.Contains(err.Error(), "igb") {
		t.Errorf("got %v, want an error that names the module", err)
	}
}
