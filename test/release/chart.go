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
	if _, err := b.helm(ctx, "package", filepath.Join(b.Root, "helm/alioth"), "--destination", dir); err != nil {
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

// helm returns what a command of helm prints.
func (b *builder) helm(ctx context.Context, args ...string) (string, error) {
	dir, err := b.Tools.Ensure(ctx, build.Helm())
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "helm"), args...)
	var told bytes.Buffer
	cmd.Stderr = &told
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run helm %s: %w\n%s", args[0], err, told.Bytes())
	}
	return string(out), nil
}

// Placeholders in the manifests. The range is one of documents until the text is replaced,
// because the chart refuses a text.
const (
	hostPlaceholder  = "API-SERVER-HOST"
	rangePlaceholder = "SERVICE-RANGE"
	rangeInRendering = "192.0.2.0/24"
)

// manifest is a file for people without Helm.
type manifest struct {
	name string
	// text explains the file at its begin.
	text string
	args []string
}

// manifests are the files of rendered templates.
func manifests() []manifest {
	return []manifest{
		{"crds.yaml", "The kinds of Alioth. Apply this file first, and wait:\n" +
			"  kubectl apply --server-side -f crds.yaml\n" +
			"  kubectl wait --for=condition=Established -f crds.yaml",
			[]string{"--show-only", "templates/crds.yaml"}},
		{"manifests.yaml", "Alioth, as the chart renders it with its default values, for the namespace alioth-system.\n" +
			"Other values, or service ranges of two families, need the chart. Replace the placeholders:\n" +
			"  " + hostPlaceholder + "  the address at which nodes reach the API server, without the Service kubernetes\n" +
			"  " + rangePlaceholder + "    the API server's --service-cluster-ip-range, for example 10.96.0.0/12\n" +
			"The port is 6443 (--api-server-port, KUBERNETES_SERVICE_PORT). Then, after crds.yaml:\n" +
			"  kubectl create namespace alioth-system\n" +
			"  sed -e 's|" + hostPlaceholder + "|192.0.2.10|' -e 's|" + rangePlaceholder + "|10.96.0.0/12|' manifests.yaml | kubectl apply --server-side -f -",
			[]string{"--set", "crds.enabled=false", "--no-hooks", "--api-versions", "alioth.dev/v1alpha1/VPC"}},
		{"uninstall.yaml", "The Job that cleans all nodes. It refuses while pods have addresses. Apply this file with the\n" +
			"placeholders replaced as in manifests.yaml, and wait for the Job to be complete. Then delete\n" +
			"the objects of this file, manifests.yaml and crds.yaml. Deleting crds.yaml deletes all VPCs:\n" +
			"  kubectl wait --for=condition=Complete --timeout=10m -n alioth-system job --all",
			[]string{"--show-only", "templates/uninstall.yaml"}},
	}
}

// manifests renders the chart for people without Helm.
func (b *builder) manifests(ctx context.Context) error {
	for _, m := range manifests() {
		text, err := b.render(ctx, m)
		if err != nil {
			return err
		}
		if err := b.write(m.name, text); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) render(ctx context.Context, m manifest) (string, error) {
	args := []string{
		"template", "alioth", filepath.Join(b.Root, "helm/alioth"), "--namespace", "alioth-system",
		"--set", "apiServer.host=" + hostPlaceholder, "--set", "serviceCIDRs={" + rangeInRendering + "}",
	}
	text, err := b.helm(ctx, append(args, m.args...)...)
	if err != nil {
		return "", err
	}
	comment := "# Alioth " + version.Number + ". " + strings.ReplaceAll(m.text, "\n", "\n# ") + "\n"
	return comment + strings.ReplaceAll(text, rangeInRendering, rangePlaceholder), nil
}
