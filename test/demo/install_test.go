// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/docs/typed"
	"github.com/alioth-net/alioth/test/examples"
	"github.com/alioth-net/alioth/test/examples/reader"
	"github.com/alioth-net/alioth/test/soak"
)

// The pages that are followed.
const (
	installPage   = "docs/install/install.md"
	uninstallPage = "docs/install/uninstall.md"
)

// Steps of the pages that the pages do not give as commands: the values of the lab, and the end and
// the new start of cluster DNS, whose pods have addresses.
const (
	keepValues = "helm get values alioth --namespace alioth-system --output yaml > values.yaml"
	endDNS     = "kubectl -n kube-system scale deployment coredns --replicas=0\n" +
		"kubectl -n kube-system wait pods --selector k8s-app=kube-dns --for=delete --timeout=2m"
	startDNS = "kubectl -n kube-system scale deployment coredns --replicas=2\n" +
		"kubectl -n kube-system rollout status deployment coredns --timeout=2m"
)

// TestPages_InstallAndUninstall_WorkOnLab: the commands of both pages, on the lab.
func TestPages_InstallAndUninstall_WorkOnLab(t *testing.T) {
	if os.Getenv("ALIOTH_E2E") == "" {
		t.Skip("needs a lab: set ALIOTH_E2E=1")
	}
	soak.Only(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, root) })
	lab, err := cluster.Up(t.Context(), root, cluster.Options{Progress: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	r := reader.Reader{Lab: lab, Folder: desk(t, root)}
	follow := func(page, begins string) {
		t.Helper()
		block, err := typed.Find(root, page, begins)
		if err != nil {
			t.Fatal(err)
		}
		mustType(t, r, page, examples.Step{Line: block.Line, Commands: block.Commands})
	}
	mustType(t, r, uninstallPage, examples.Step{Commands: keepValues})
	mustType(t, r, uninstallPage, examples.Step{Commands: endDNS})
	follow(uninstallPage, "helm uninstall")
	follow(uninstallPage, "kubectl get crd")
	follow(installPage, "aliothctl preflight")
	follow(installPage, "kubectl create namespace")
	follow(installPage, "helm install")
	mustType(t, r, installPage, examples.Step{Commands: startDNS})
	follow(installPage, "kubectl -n alioth-system rollout status")
}
