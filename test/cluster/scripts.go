// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/alioth-net/alioth/test/cluster/underlay"
)

// withKubeconfig runs a client against the lab, whatever KUBECONFIG contains, past any
// proxy, and without a trace in the user's home folder.
var withKubeconfig = template.Must(template.New("client").Parse(`#!/bin/sh
export KUBECONFIG='{{.Kubeconfig}}' KUBECACHEDIR='{{.Cache}}/kube'
export HELM_CACHE_HOME='{{.Cache}}/helm' HELM_CONFIG_HOME='{{.Cache}}/helm' HELM_DATA_HOME='{{.Cache}}/helm'
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY
export PATH='{{.Bin}}':"$PATH" # has plugins of kubectl
exec '{{.Binary}}' "$@"
`))

// nodeExec checks that the recorded process is still the one that holds the
// node's namespaces before it enters them.
var nodeExec = template.Must(template.New("node-exec").Parse(`#!/bin/sh
# usage: node-exec NODE [--] COMMAND [ARGUMENT...]
# Runs a command with a node's network, file system and host name.
case "$1" in
{{- range .}}
{{.Number}} | node{{.Number}} | {{.Name}}) pid={{.PID}} netns='{{.NetNS}}' ;;
{{- end}}
*) echo "usage: node-exec NODE [--] COMMAND...; nodes:{{range .}} {{.Name}}{{end}}" >&2; exit 2 ;;
esac
shift
[ "$1" = -- ] && shift
[ $# -gt 0 ] || set -- /bin/bash
inode=$(stat -Lc %i "$netns" 2>/dev/null)
if [ -z "$inode" ] || [ "$(stat -Lc %i "/proc/$pid/ns/net" 2>/dev/null)" != "$inode" ]; then
	echo "node-exec: the node is not up: run: make up" >&2
	exit 1
fi
exec nsenter --target "$pid" --mount --net --uts -- "$@"
`))

// writeScripts writes the lab's bin folder.
func (c *Cluster) writeScripts(p parts) error {
	if err := c.writeClients(map[string]string{
		"kubectl":   filepath.Join(p.kubernetes, "kubectl"),
		"helm":      filepath.Join(p.helm, "helm"),
		"aliothctl": p.aliothctl,
	}); err != nil {
		return err
	}
	type entry struct {
		Number, PID int
		Name, NetNS string
	}
	var nodes []entry
	for i, n := range c.Nodes() {
		if n.Guest { // see lab exec
			continue
		}
		_, holder, err := c.space(n.Name)
		if err != nil {
			return err
		}
		nodes = append(nodes, entry{Number: i + 1, PID: holder.PID, Name: n.Name, NetNS: underlay.NetNSPath(n.Name)})
	}
	return c.writeScript("node-exec", nodeExec, nodes)
}

// writeClients writes a script for each client with a binary. aliothctl is a plugin of kubectl too.
func (c *Cluster) writeClients(binaries map[string]string) error {
	for name, binary := range binaries {
		if binary == "" {
			continue
		}
		data := map[string]string{"Kubeconfig": c.Kubeconfig(), "Cache": c.path("cache"), "Bin": c.path("bin"), "Binary": binary}
		if err := c.writeScript(name, withKubeconfig, data); err != nil {
			return err
		}
	}
	if binaries["aliothctl"] == "" {
		return nil
	}
	for _, name := range []string{"kubectl-alioth", "kubectl_complete-alioth"} {
		if err := os.Remove(c.path("bin", name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("replace the plugin of kubectl: %w", err)
		}
		if err := os.Symlink(binaries["aliothctl"], c.path("bin", name)); err != nil {
			return fmt.Errorf("write the plugin of kubectl: %w", err)
		}
	}
	return nil
}

func (c *Cluster) writeScript(name string, t *template.Template, data any) error {
	if err := os.MkdirAll(c.path("bin"), 0o755); err != nil {
		return fmt.Errorf("make the folder for scripts: %w", err)
	}
	var text strings.Builder
	if err := t.Execute(&text, data); err != nil {
		return fmt.Errorf("write the script %s: %w", name, err)
	}
	if err := os.WriteFile(c.path("bin", name), []byte(text.String()), 0o755); err != nil {
		return fmt.Errorf("write the script %s: %w", name, err)
	}
	return nil
}
