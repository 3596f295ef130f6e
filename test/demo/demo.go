// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// The manifests that a user would apply by hand.
var (
	//go:embed manifests/tenants.yaml
	tenantsManifest []byte
	//go:embed manifests/pods.yaml
	podsManifest []byte
)

// errWrong ends a demo whose matrix is not correct.
var errWrong = errors.New("the matrix above is not correct")

// readyTime is how long the pods may take to be Ready.
const readyTime = 2 * time.Minute

func run(ctx context.Context, root string, out *printer) error {
	lab, err := cluster.Up(ctx, root, cluster.Options{DNSLater: true, Progress: out.step})
	if err != nil {
		return fmt.Errorf("bring up the lab: %w", err)
	}
	stage, err := scene.New(lab.Config(), lab)
	if err != nil {
		return err
	}
	pods, err := startPods(ctx, lab, stage, out)
	if err != nil {
		return err
	}
	out.pods(pods)
	out.step("asking from every pod: ping, TCP, UDP and HTTP, over IPv4 and IPv6")
	result, err := askAll(ctx, stage, pods)
	if err != nil {
		return err
	}
	out.matrix(result)
	out.hints(lab.Nodes()[0].Name)
	if !result.asItMustBe() {
		return errWrong
	}
	return nil
}

// startPods applies the manifests and waits until every pod is Ready.
func startPods(ctx context.Context, lab *cluster.Cluster, stage *scene.Scene, out *printer) ([]*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	manifest := podsIn(lab.Topology().Lab)
	pods, err := podsOf(manifest)
	if err != nil {
		return nil, err
	}
	out.step("creating two tenants whose VPCs have the same ranges")
	if err := lab.Apply(ctx, tenantsManifest); err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if err := stage.WaitForAccount(ctx, pod.Namespace); err != nil {
			return nil, err
		}
	}
	out.step(fmt.Sprintf("starting %d pods with HTTP probes", len(pods)))
	if err := lab.Apply(ctx, manifest); err != nil {
		return nil, err
	}
	return pods, stage.WaitReady(ctx, pods...)
}

// podsIn returns the manifest of the pods for a lab: it names the nodes of the lab without a
// number.
func podsIn(lab string) []byte {
	return bytes.ReplaceAll(podsManifest, []byte("alioth-node"), []byte(lab+"-node"))
}

// podsOf reads the pods of a manifest of several documents.
func podsOf(manifest []byte) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		pod := &corev1.Pod{}
		err := decoder.Decode(pod)
		if errors.Is(err, io.EOF) {
			return pods, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the pods' manifest: %w", err)
		}
		if strings.EqualFold(pod.Kind, "Pod") {
			pods = append(pods, pod)
		}
	}
}
