// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/alioth-net/alioth/store"
)

// NodeAuditMetrics counts rejected data. The nil value counts nothing.
type NodeAuditMetrics struct{ total *prometheus.CounterVec }

// NewNodeAuditMetrics creates and registers the metrics.
func NewNodeAuditMetrics(registry prometheus.Registerer) (*NodeAuditMetrics, error) {
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "alioth_operator_distrusted_total",
		Help: "What was written in the name of a node and is not believed, by node and by the reason of the node's event.",
	}, []string{"node", "reason"})
	if err := registry.Register(total); err != nil {
		return nil, fmt.Errorf("register the count of what is not believed: %w", err)
	}
	return &NodeAuditMetrics{total}, nil
}

// NodeAudit reports rejected data that was written with a node's token (docs/design/011): by
// an event of the Node and a metric. The nil value reports nothing.
type NodeAudit struct {
	Store   *store.Store
	Events  events.EventRecorder
	Metrics *NodeAuditMetrics
}

// Report counts, and writes a Warning event of the Node if there is one.
func (r *NodeAudit) Report(node, reason, note string) {
	if r == nil {
		return
	}
	var row *store.Node
	r.Store.View(func(tx store.ReadTx) { row = store.GetNode(tx, node) })
	if row == nil {
		return // otherwise any text could become a label of the metric
	}
	if r.Metrics != nil {
		r.Metrics.total.WithLabelValues(node, reason).Inc()
	}
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: row.Name, UID: types.UID(row.UID)}}
	r.Events.Eventf(object, nil, corev1.EventTypeWarning, reason, "Distrust", "%s", note)
}
