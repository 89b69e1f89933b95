// A complete reader under test with iceberg-go. It reads the current snapshot of Iceberg tables.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

type request struct {
	ID         int
	Op, Output string
	Columns    []string
	Table      struct {
		Format   string
		Metadata string `json:"metadata_path"`
		At       any
	}
}

func read(ctx context.Context, asked request) error {
	place := asked.Table.Metadata
	if asked.Table.Format != "iceberg" || asked.Table.At != nil {
		return iceberg.ErrNotImplemented
	}
	opened, err := table.NewFromLocation(ctx, nil, place, io.LoadFSFunc(nil, place), nil)
	if err != nil {
		return err
	}
	schema, batches, err := opened.Scan(table.WithSelectedFields(asked.Columns...)).ToArrowRecords(ctx)
	if err != nil {
		return err
	}
	file, _ := os.Create(asked.Output)
	writer := ipc.NewWriter(file, ipc.WithSchema(schema))
	for batch, err := range batches {
		if err == nil {
			err = writer.Write(batch)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(writer.Close(), file.Close())
}

func main() {
	requests, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for asked := (request{}); requests.Decode(&asked) == nil; asked = (request{}) {
		answer := map[string]any{"id": asked.ID, "rows": asked.Output}
		if asked.Op == "hello" {
			answer = map[string]any{"version": "1", "language": "Go", "filters": false}
		} else if err := read(context.Background(), asked); errors.Is(err, iceberg.ErrNotImplemented) {
			answer = map[string]any{"id": asked.ID, "unsupported": err.Error()}
		} else if err != nil {
			answer = map[string]any{"id": asked.ID, "error": "failed", "message": err.Error()}
		}
		answers.Encode(answer)
	}
}
