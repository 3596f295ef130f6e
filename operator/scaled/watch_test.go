// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scaled

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
)

// TestChangesOfAServiceAreCollected: a roll-out changes the slices of a Service many times a
// second, and each write of a verdict goes to all nodes of the VPC. The time is that of a
// bubble.
func TestChangesOfAServiceAreCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := operatortest.New(t, web(func(*store.Service) {})...)
		f := feed.New(rows, logr.Discard())
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		if err := New(nil, rows, testRules).source(f).Start(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for time.Since(began) < collectFor/2 {
			f.Publish(feed.Change{Old: slice("uid-a", "10.0.0.1"), New: slice("uid-b", "10.0.0.2")})
			time.Sleep(collectFor / 50) //nolint:forbidigo // virtual time
		}
		synctest.Wait()
		if n := queue.Len(); n != 0 {
			t.Errorf("%d requests for changes that are still collected", n)
		}
		time.Sleep(collectFor) //nolint:forbidigo // virtual time
		synctest.Wait()
		if n := queue.Len(); n != 1 {
			t.Fatalf("%d requests for the changes of one Service, want 1", n)
		}
		got, _ := queue.Get()
		queue.Done(got)
		if got.String() != "blue/web" {
			t.Errorf("requested is %s", got)
		}
	})
}
