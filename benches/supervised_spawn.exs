# Prints the microseconds that the BEAM takes to start a child under a DynamicSupervisor, registered in a Registry,
# and to stop it again.
defmodule Worker do
  use GenServer, restart: :temporary
  def start_link(key), do: GenServer.start_link(__MODULE__, nil, name: {:via, Registry, {Names, key}})
  def init(_), do: {:ok, nil}
end

defmodule Bench do
  # A new key each time: the entry of a dead process goes with a message, which the next start may overtake.
  def round(count) do
    {us, _} = :timer.tc(fn -> Enum.each(1..count, &once/1) end)
    us / count
  end

  defp once(key) do
    {:ok, pid} = DynamicSupervisor.start_child(Dynamic, {Worker, key})
    :ok = DynamicSupervisor.terminate_child(Dynamic, pid)
  end
end

{:ok, _} = Registry.start_link(keys: :unique, name: Names)
{:ok, _} = DynamicSupervisor.start_link(name: Dynamic, strategy: :one_for_one)
Bench.round(2000)
IO.puts(Enum.min(for _ <- 1..21, do: Bench.round(2000)))
