// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam

import (
	"context"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"

	nodeipamclient "github.com/alioth-net/alioth/cnid/nodeipam/client"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var suite = stage.NewSuite("nodeipam", "../../..")

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

// env is the lab with a node whose pods another CNI plugin attaches.
type env struct {
	*stage.Env
	// other has the pods of Alioth's own plugin.
	node, other string
}

// start gives the node its label and its plugin, until the end of the test.
func start(t *testing.T) *env {
	t.Helper()
	e := &env{Env: suite.Start(t)}
	e.other, e.node = e.Nodes()
	e.UseOtherPlugin(t, e.node)
	return e
}

// waits until something is true, or fails the test.
func (e *env) waits(t *testing.T, what string, look func(context.Context) (bool, string, error)) {
	t.Helper()
	if err := scene.Until(stage.Within(t, stage.Patience), what, look); err != nil {
		t.Fatal(err)
	}
}

// api returns the service on the node.
func (e *env) api(t *testing.T) nodeipamclient.Client {
	t.Helper()
	return e.NodeIPAM(t, e.node)
}

// container returns the ID of the sandbox that is attached for a pod.
func (e *env) container(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	dump, err := e.Dump(stage.Within(t, stage.Patience), e.node)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range dump.Attachments {
		if one.Pod.UID == string(pod.UID) && one.External {
			return one.ContainerID
		}
	}
	t.Fatalf("no attachment of %s in %+v", pod.Name, dump.Attachments)
	return ""
}
