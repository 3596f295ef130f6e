// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/release/archive"
)

// chart packages the chart with helm, which checks it, and packs the files again, because helm
// writes the time of the build.
func (b *builder) chart(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "alioth-chart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := runHelm(ctx, &b.Tools, "package", filepath.Join(b.Root, "helm/alioth"), "--destination", dir); err != nil {
		return err
	}
	name := "alioth-" + version.Number + ".tgz"
	packed, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer packed.Close()
	out, err := os.Create(b.path(name))
	if err != nil {
		return err
	}
	return errors.Join(archive.Repack(out, packed, b.stamp.Time), out.Close())
}

// runHelm returns the output of a command of helm.
func runHelm(ctx context.Context, tools *build.Builder, args ...string) (string, error) {
	dir, err := tools.Ensure(ctx, build.Helm())
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "helm"), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run helm %s: %w\n%s", args[0], err, stderr.Bytes())
	}
	return string(out), nil
}

// Placeholders in the manifests.
const (
	HostPlaceholder  = "API-SERVER-HOST"
	RangePlaceholder = "SERVICE-RANGE"
)

// rangeInRendering stands for RangePlaceholder while helm renders, because the chart refuses a
// text. It is a range of documents, so nothing else has it.
const rangeInRendering = "192.0.2.0/24"

// manifest is a file for people without Helm.
type manifest struct {
	name string
	// text explains the file at its begin.
	text string
	args []string
}

// manifests returns the files of rendered templates.
func manifests() []manifest {
	return []manifest{
		{
			name: "crds.yaml",
			text: "The kinds of Alioth. Apply this file first, and wait:\n" +
				"  kubectl apply --server-side -f crds.yaml\n" +
				"  kubectl wait --for=condition=Established -f crds.yaml",
			args: []string{"--show-only", "templates/crds.yaml"},
		},
		{
			name: "manifests.yaml",
			text: "Alioth, as the chart renders it with its default values, for the namespace alioth-system.\n" +
				"Other values, or service ranges of two families, need the chart. Replace the placeholders:\n" +
				"  " + HostPlaceholder + "  the address at which nodes reach the API server, without the Service kubernetes\n" +
				"  " + RangePlaceholder + "    the API server's --service-cluster-ip-range, for example 10.96.0.0/12\n" +
				"The port is 6443 (--api-server-port, KUBERNETES_SERVICE_PORT). Then, after crds.yaml:\n" +
				"  kubectl create namespace alioth-system\n" +
				"  sed -e 's|" + HostPlaceholder + "|192.0.2.10|' -e 's|" + RangePlaceholder + "|10.96.0.0/12|' manifests.yaml | kubectl apply --server-side -f -",
			args: []string{"--set", "crds.enabled=false", "--no-hooks", "--api-versions", "alioth.dev/v1alpha1/VPC"},
		},
		{
			name: "uninstall.yaml",
			text: "The Job that cleans all nodes. It refuses while pods have addresses. Replace the placeholders\n" +
				HostPlaceholder + " and " + RangePlaceholder + " as in manifests.yaml, apply the file, and wait for the Job to be\n" +
				"complete. Then delete the objects of this file, manifests.yaml and crds.yaml. The last one\n" +
				"deletes all VPCs:\n" +
				"  kubectl wait --for=condition=Complete --timeout=10m -n alioth-system job --all",
			args: []string{"--show-only", "templates/uninstall.yaml"},
		},
	}
}

// manifests writes the files for people without Helm.
func (b *builder) manifests(ctx context.Context) error {
	files, err := Manifests(ctx, b.Root, b.Tools)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := b.write(name, text); err != nil {
			return err
		}
	}
	return nil
}

// Manifests renders the chart of a work tree for people without Helm, and returns the files by
// their names.
func Manifests(ctx context.Context, root string, tools build.Builder) (files map[string]string, err error) {
	files = map[string]string{}
	for _, m := range manifests() {
		args := append([]string{
			"template", "alioth", filepath.Join(root, "helm/alioth"), "--namespace", "alioth-system",
			"--set", "apiServer.host=" + HostPlaceholder, "--set", "serviceCIDRs={" + rangeInRendering + "}",
		}, m.args...)
		text, err := runHelm(ctx, &tools, args...)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", m.name, err)
		}
		comment := "# Alioth " + version.Number + ". " + strings.ReplaceAll(m.text, "\n", "\n# ") + "\n"
		files[m.name] = comment + strings.ReplaceAll(text, rangeInRendering, RangePlaceholder)
	}
	return files, nil
}
