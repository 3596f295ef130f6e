// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"encoding/json"
	"path"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/cluster/node"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var _ = kept(Report{
	Name: "static-pod", Source: "k8snetworkplumbingwg/multus-cni#773", Kind: addresses,
	Input: "A node runs a static pod. The runtime has another UID for it than the API server.",
	Want:  "The pod starts in the VPC of its namespace, is reached by the address of its mirror, and leaves nothing.",
	Run: func(t *testing.T, l *lab) {
		first, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("static"))
		asker, manifest := tenant.Pod("asker", scene.OnNode(first)), tenant.Pod("static")
		mirror := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: manifest.Namespace, Name: manifest.Name + "-" + second}}
		manifest.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		manifest.Spec.Containers[0].Command = []string{scene.Tool, "serve", "--name", name(mirror)}
		text, err := json.Marshal(manifest)
		if err != nil {
			t.Fatal(err)
		}
		l.Run(t, asker)
		file := path.Join(node.StaticPods, manifest.Namespace+".json")
		remove := func() { l.OnNode(t, second, "rm", "-f", file) }
		t.Cleanup(remove)
		l.OnNode(t, second, "sh", "-c", "echo '"+string(text)+"' > "+file)
		until(t, "the mirror to be Ready", func(ctx context.Context) (bool, string, error) {
			err := l.Client.Get(ctx, client.ObjectKeyFromObject(mirror), mirror)
			if client.IgnoreNotFound(err) != nil {
				return false, "", err
			}
			return err == nil && scene.IsReady(mirror), l.Describe(ctx, mirror), nil
		})
		l.expectOwn(t, 2, mirror)
		l.ExpectAnswers(t, asker, stage.WantPod(mirror))
		remove()
		l.expectFreed(t, mirror)
	},
})
