// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/cluster/release"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/waits"
)

// patience is how long one change of the version may take, with all that happens meanwhile.
const patience = 5 * time.Minute

// root of the work tree, seen from this package's folder.
const root = "../../.."

// last is the release that the work tree has to be upgraded from; errLast explains its lack.
var last, errLast = release.Last(root)

// suite is all tests of this package, on one lab.
var suite = stage.NewSuiteOn("upgrade", root, cluster.Options{Dir: cluster.DefaultDir(root), Release: last.Commit})

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

// env is a lab that can have two versions.
type env struct {
	*stage.Env
	released, present release.Version
}

// start returns the lab. The work tree is installed again at the end.
func start(t *testing.T) *env {
	t.Helper()
	if errLast != nil {
		t.Fatal(errLast)
	}
	cache, err := build.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	b := release.Builder{Root: root, Cache: cache, Progress: func(line string) { t.Log(line) }}
	released, err := b.Ensure(within(t), last.Commit)
	if errors.Is(err, release.ErrNoHistory) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	e := &env{Env: suite.Start(t), released: released}
	if e.present, err = e.Lab.WorkTree(within(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() && e.other(t) == e.released {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), waits.Limit(patience))
		defer cancel()
		if err := e.Lab.Install(ctx, e.present); err != nil {
			t.Errorf("install the work tree again: %v", err)
		}
	})
	return e
}

func within(t *testing.T) context.Context {
	t.Helper()
	return waits.Within(t, patience)
}

// daemons returns the DaemonSet of the node daemons.
func (e *env) daemons(ctx context.Context) (*appsv1.DaemonSet, error) {
	sets, err := e.Lab.Client().AppsV1().DaemonSets(cluster.SystemNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=daemon"})
	if err != nil {
		return nil, err
	}
	if len(sets.Items) != 1 {
		return nil, fmt.Errorf("%d DaemonSets are Alioth's", len(sets.Items))
	}
	return &sets.Items[0], nil
}

// other returns the version that is not installed.
func (e *env) other(t *testing.T) release.Version {
	t.Helper()
	set, err := e.daemons(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if set.Spec.Template.Spec.Containers[0].Image == e.released.Image.Ref {
		return e.present
	}
	return e.released
}

// nameOf names a version for people.
func (e *env) nameOf(v release.Version) string {
	if v == e.released {
		return "the release " + last.Version
	}
	return "the work tree"
}

// images returns the images of Alioth's pods of a component, by the names of their nodes and pods.
func (e *env) images(ctx context.Context, component string) (map[string]string, error) {
	var list corev1.PodList
	err := e.Client.List(ctx, &list, client.InNamespace(cluster.SystemNamespace), client.MatchingLabels{"app.kubernetes.io/component": component})
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			all[pod.Spec.NodeName+"/"+pod.Name] = pod.Spec.Containers[0].Image
		}
	}
	return all, nil
}

// awaitImages waits until all of Alioth's pods of a component have the image of a version.
func (e *env) awaitImages(ctx context.Context, component string, v release.Version) error {
	return scene.Until(ctx, "the "+component+" to be "+v.Image.Ref, func(ctx context.Context) (bool, string, error) {
		all, err := e.images(ctx, component)
		for _, image := range all {
			if image != v.Image.Ref {
				return false, fmt.Sprint(all), nil
			}
		}
		return len(all) > 0, fmt.Sprint(all), err
	})
}

// expectVersion requires that all of Alioth's own pods have the image of a version.
func (e *env) expectVersion(t *testing.T, v release.Version) {
	t.Helper()
	for _, component := range []string{"operator", "daemon"} {
		if err := e.awaitImages(within(t), component, v); err != nil {
			t.Error(err)
		}
	}
}
