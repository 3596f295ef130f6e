// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scaled

import (
	"fmt"
	"slices"
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

// TestServiceRequests_VPCChange_EachServiceOnce: many Networks of a tenant name the VPC.
func TestServiceRequests_VPCChange_EachServiceOnce(t *testing.T) {
	vpc := operatortest.VPC("blue-vpc", 1, []string{"blue"}, "10.0.0.0/16")
	list := []any{vpc, &store.Namespace{Name: "red", Tenant: "red"}}
	for i := range 100 {
		list = append(list, operatortest.Network("red", "red", fmt.Sprint("crowd", i), vpc.Name, 0), &store.Service{Namespace: "red", Name: fmt.Sprint("crowd", i)})
	}
	rows := operatortest.New(t, list...)
	rows.View(func(tx store.ReadTx) {
		if requests := New(nil, rows, testRules).ofVPC(tx, nil, vpc); len(requests) != 100 {
			t.Errorf("%d requests for 100 Services", len(requests))
		}
	})
}

// TestServiceRequests_ExternalIPsChange_OnlyTheirServices: equal IPs request no Service.
func TestServiceRequests_ExternalIPsChange_OnlyTheirServices(t *testing.T) {
	naming := func(name string, ips ...string) *store.Service {
		return &store.Service{Meta: operatortest.Meta("uid-"+name, 0), Namespace: "red", Name: name, ExternalIPs: operatortest.Addrs(ips...)}
	}
	one, both, none := naming("one", "192.0.2.1"), naming("one", "192.0.2.1", "192.0.2.2"), naming("one")
	deleting := *both
	deleting.Deleting = true
	operatortest.New(t, both, naming("first", "192.0.2.1"), naming("second", "192.0.2.2"), naming("other", "192.0.2.3")).View(func(tx store.ReadTx) {
		for name, c := range map[string]struct {
			old, now *store.Service
			want     []string
		}{
			"a new one":       {nil, both, []string{"first", "one", "second"}},
			"one IP more":     {one, both, []string{"first", "one", "second"}},
			"no IP more":      {both, none, []string{"first", "one", "second"}},
			"it goes":         {both, &deleting, []string{"first", "one", "second"}},
			"another field":   {both, both, []string{"one"}},
			"one without IPs": {none, none, []string{"one"}},
		} {
			var got []string
			for _, request := range ofService(tx, c.old, c.now) {
				got = append(got, request.Name)
			}
			slices.Sort(got)
			if got = slices.Compact(got); !slices.Equal(got, c.want) {
				t.Errorf("%s: requested are %v, want %v", name, got, c.want)
			}
		}
	})
}

// TestServiceRequests_ManyChanges_Collected: a roll-out changes the slices of a Service many times a
// second, and each write of a verdict goes to all nodes of the VPC. The test uses the time of a
// synctest bubble.
func TestServiceRequests_ManyChanges_Collected(t *testing.T) {
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
