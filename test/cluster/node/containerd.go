// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/alioth-net/alioth/test/cluster/process"
)

// Socket is containerd's socket as seen on a node.
const Socket = "/run/containerd/containerd.sock"

// TasksDir is where containerd keeps one folder per running container on a
// node; each has a file init.pid.
const TasksDir = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"

// containerdConfig leaves out plugins that would write to the host's folders, and sets
// the options whose defaults depend on the host.
//
// restrict_oom_score_adj lets it work without CAP_SYS_RESOURCE.
var containerdConfig = template.Must(template.New("containerd").Parse(`version = {{if .Old}}2{{else}}3{{end}}
imports = []
root = '{{.Root}}'
state = '/run/containerd'
disabled_plugins = [
  'io.containerd.internal.v1.opt',
  'io.containerd.nri.v1.nri',
  'io.containerd.snapshotter.v1.blockfile',
  'io.containerd.snapshotter.v1.erofs',
  'io.containerd.differ.v1.erofs',
]

[grpc]
  address = '{{.Socket}}'

{{if .Old -}}
[plugins.'io.containerd.grpc.v1.cri']
  restrict_oom_score_adj = true
  sandbox_image = '{{.Sandbox}}'
  [plugins.'io.containerd.grpc.v1.cri'.cni]
    bin_dir = '/opt/cni/bin'
    conf_dir = '/etc/cni/net.d'
  [plugins.'io.containerd.grpc.v1.cri'.containerd]
    snapshotter = 'overlayfs'
    [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc]
      runtime_type = 'io.containerd.runc.v2'
      [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc.options]
        SystemdCgroup = false
{{else -}}
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '{{.Sandbox}}'

[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['/opt/cni/bin']
    conf_dir = '/etc/cni/net.d'
    use_internal_loopback = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      SystemdCgroup = false
{{end -}}
`))

// ContainerdRoot returns the folder of containerd's images and containers.
func (m Machine) ContainerdRoot() string { return m.Path("containerd") }

// Runtime is the containerd of a node.
type Runtime struct {
	// Bin is the folder with its binaries.
	Bin string
	// Minor is its minor version, "" for the newest that the lab knows.
	Minor string
	// Sandbox is the image of every pod's sandbox.
	Sandbox string
}

// old reports whether it is containerd 1: its configuration has other sections.
func (r Runtime) old() bool { return strings.HasPrefix(r.Minor, "1.") }

// NeedsLoopback reports whether it runs a CNI plugin for the loopback interface of pods.
// containerd 2 configures that interface itself.
func (r Runtime) NeedsLoopback() bool { return r.old() }

// Containerd writes containerd's configuration and returns how to run it.
func (m Machine) Containerd(r Runtime) (process.Spec, error) {
	var text strings.Builder
	err := containerdConfig.Execute(&text, map[string]any{
		"Root": m.ContainerdRoot(), "Socket": Socket, "Sandbox": r.Sandbox, "Old": r.old(),
	})
	if err != nil {
		return process.Spec{}, fmt.Errorf("write containerd's configuration: %w", err)
	}
	config := m.Path("containerd.toml")
	if err := os.WriteFile(config, []byte(text.String()), 0o644); err != nil {
		return process.Spec{}, fmt.Errorf("write containerd's configuration: %w", err)
	}
	return process.Spec{
		Name: m.Name + "/containerd",
		Args: []string{filepath.Join(r.Bin, "containerd"), "--config", config},
		// It finds its shim and runc by PATH.
		Env: Environment(r.Bin),
		Log: m.LogFile("containerd"), Cgroups: m.Daemons,
	}, nil
}

// garbage lets daemons have more garbage than usual: the tests wait for processors, which
// collections use, and not for memory. Containers have an environment of their own.
const garbage = "GOGC=400"

// Environment returns the whole environment of a daemon of the lab: its programs
// are found in the extra folders first, and nothing else (a proxy setting, say)
// leaks in from the caller.
func Environment(extra ...string) []string {
	path := append(extra, "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
	return []string{"PATH=" + strings.Join(path, ":"), "HOME=/root", "LANG=C.UTF-8", garbage}
}
