// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netpol

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cmd/aliothctl/netpol/judgement"
	"github.com/alioth-net/alioth/cmd/aliothctl/options"
)

// source has the options that the commands share: where objects come from, and the format of the
// output.
type source struct {
	kubeconfig, format string
	offline            bool
	files              []string
	defaultVPC         string
	shared             []string
}

func newSource() source {
	return source{
		format: options.Text, defaultVPC: v1alpha1.DefaultVPCName,
		shared: []string{v1alpha1.APIServerService, "kube-system/kube-dns"},
	}
}

func (s *source) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&s.offline, "offline", false, "read no cluster, but the files of -f")
	flags.StringSliceVarP(&s.files, "filename", "f", nil,
		"file or folder with manifests, for --offline; - is standard input; may be repeated")
	flags.StringVar(&s.defaultVPC, "default-vpc", s.defaultVPC, "name of the default VPC")
	flags.StringSliceVar(&s.shared, "shared-services", s.shared,
		"Services (NAMESPACE/NAME) that every VPC reaches, as in the values of the chart; SharedService objects add to them")
	options.AddKubeconfig(cmd, &s.kubeconfig)
	options.AddFormat(cmd, &s.format, options.YAML)
	options.Complete(cmd, &s.kubeconfig)
	cmd.MarkFlagsRequiredTogether("offline", "filename")
	cmd.MarkFlagsMutuallyExclusive("offline", "kubeconfig")
}

// objects reads the objects of the files, or lets cluster read the objects of a cluster.
func (s *source) objects(stdin io.Reader, cluster func(*judgement.Objects) error) (*judgement.Objects, error) {
	o := judgement.New()
	o.DefaultVPC = s.defaultVPC
	for _, text := range s.shared {
		namespace, name, ok := strings.Cut(text, "/")
		if !ok {
			return nil, fmt.Errorf("--shared-services %q: want NAMESPACE/NAME", text)
		}
		o.Shared = append(o.Shared, judgement.Name{Namespace: namespace, Name: name})
	}
	if s.offline {
		return o, readFiles(o, s.files, stdin)
	}
	return o, cluster(o)
}

// print writes an answer in the chosen format.
func (s *source) print(out io.Writer, answer any, text func() string) error {
	switch s.format {
	case options.JSON:
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(answer)
	case options.YAML:
		text, err := yaml.Marshal(answer)
		if err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	}
	_, err := io.WriteString(out, text())
	return err
}
